"""Read and write the data files of a table.

Imported by `view` and everything above. Read first: names.py.
"""
