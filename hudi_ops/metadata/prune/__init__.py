"""Exclude partitions, file groups and keys by the metadata table's statistics.

Imported by `metadata` and everything above. Read first: bounds.py.
"""
