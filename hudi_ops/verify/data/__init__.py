"""Check base files, log files and listings.

Imported by `verify`. Read first: files.py.
"""
