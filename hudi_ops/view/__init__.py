"""Decide which files of a table a reader sees.

Imported by `metadata`, `index` and everything above. Read first: snapshot.py.
"""
