"""Inventory of the files that an instant owns, and their remover.

Read first: `kinds.py`, a row for each kind of file; then `remove.py`, which alone deletes by these rows, and `find.py`, which
finds the data files of a cancelled write.
"""
