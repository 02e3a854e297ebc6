"""Decide in a slot that an instant completes, is taken over, cancelled or archived.

Read first: `complete.py` for a write, `completion.py` for any other action.
"""
