"""Inventory of the files that an instant owns, and their remover.

Read first: `kinds.py`, a row for each kind of file; `remove.py`, the only function that deletes files by these rows.
"""
