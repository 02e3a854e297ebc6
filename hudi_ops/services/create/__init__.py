"""Create tables, and adopt tables that another program created.

Imported by `table` and `cli`. Read first: create.py.
"""
