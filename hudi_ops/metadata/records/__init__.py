"""Encode and decode the records of the metadata table.

Imported by `metadata` and everything above. Read first: schema.py.
"""
