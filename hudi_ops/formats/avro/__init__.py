"""Encode and decode Avro, by column.

Imported by `formats` and everything above. Read first: container.py.
"""
