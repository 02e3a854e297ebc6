"""Commands that make, adopt, show and repair a table.

Imported by `cli.main`. Read first: create.py.
"""
