"""Read source files that know nothing of Hudi: CSV, JSON, Parquet, Arrow streams.

Imported by `files` and everything above. Read first: source.py.
"""
