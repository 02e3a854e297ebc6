"""Check the timeline and the commit log.

Imported by `verify`. Read first: log.py.
"""
