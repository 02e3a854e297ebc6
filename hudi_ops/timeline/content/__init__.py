"""Encode and decode the contents of timeline files.

Imported by `timeline` and everything above. Read first: commit_metadata.py.
"""
