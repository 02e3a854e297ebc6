"""Commands that write, remove and read rows.

Imported by `cli.main`. Read first: ingest.py.
"""
