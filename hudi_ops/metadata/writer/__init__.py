"""Write deltas, base files and new partitions of the metadata table.

Imported by `metadata` and everything above. Read first: delta.py.
"""
