"""Merge log files into base files.

Imported by `table` and `cli`. Read first: service.py.
"""
