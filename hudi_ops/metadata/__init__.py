"""Read, prune by and write the metadata table.

Imported by `index` and everything above. Read first: index_kind.py.
"""
