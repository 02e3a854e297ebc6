"""Read the metadata table at one moment.

Imported by `metadata` and everything above. Read first: table.py.
"""
