"""Index kinds of the metadata table, one in each module.

Imported by `metadata.writer` and everything above. Read first: registry.py, then ../index_kind.py.
"""
