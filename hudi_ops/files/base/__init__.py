"""Read and write base files (Parquet).

Imported by `files` and everything above. Read first: base_file.py.
"""
