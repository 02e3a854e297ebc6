"""Read and write HFiles, the base files of the metadata table.

Imported by `formats` and everything above. Read first: reader.py.
"""
