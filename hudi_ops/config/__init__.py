"""Parse settings: tables.yaml, hoodie.properties, write settings.

Imported by everything but `errors`, `clock` and `redaction`. Read first: table.py.
"""
