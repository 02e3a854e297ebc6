"""Restore: return a table to a savepoint, and undo every later write.

`table` and `cli` may import it; it may import clean, archive and savepoint. Read `restore.py` first.
"""
