"""Compact and describe the metadata table.

Imported by `services` above it, `table` and `cli`. Read first: compact.py.
"""
