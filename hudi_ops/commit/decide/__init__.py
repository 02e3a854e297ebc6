"""Decide what a slot says of an instant: that it completes, is taken over, cancelled or withdrawn, or lies in the archive.

Read first: `complete.py` for a write, `completion.py` for any other action.
"""
