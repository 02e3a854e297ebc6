"""Encode and decode the byte formats of Apache Hudi tables.

Imported by `timeline`, `files` and everything above. Read first: avro/container.py.
"""
