"""Check the metadata table and the indexes.

Imported by `verify`. Read first: index_subject.py.
"""
