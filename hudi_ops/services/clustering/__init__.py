"""Merge small files and sort their rows.

Imported by `table` and `cli`. Read first: service.py.
"""
