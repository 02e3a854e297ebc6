"""Find the file group of a record key.

Imported by `read`, `commit` and everything above. Read first: locator.py.
"""
