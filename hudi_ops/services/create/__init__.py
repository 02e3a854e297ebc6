"""Create tables, and adopt tables that another program created.

Read first: create.py.
"""
