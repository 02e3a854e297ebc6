"""Finish or undo the instants of dead writers.

Imported by `commit` and `services`. Read first: recover.py.
"""
