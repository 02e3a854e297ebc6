"""Encode and decode the blocks of log files.

Imported by `formats` and everything above. Read first: blocks.py.
"""
