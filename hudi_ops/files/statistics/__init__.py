"""Collect column statistics of data files.

Imported by `files` and everything above. Read first: statistics.py.
"""
