"""Index kinds of the metadata table, one in each module.

Imported by `metadata` and everything above. Read first: registry.py.
"""
