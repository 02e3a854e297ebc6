"""Offer the Python API: `Table`.

Imported by `verify`, `testing` and `cli`. Read first: table.py.
"""
