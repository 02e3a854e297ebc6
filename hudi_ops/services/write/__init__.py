"""Write rows: ingest, remove, replace, change columns.

Imported by `table` and `cli`. Read first: ingest.py.
"""
