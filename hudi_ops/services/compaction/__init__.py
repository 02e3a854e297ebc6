"""Merge log files into base files.

Read first: service.py.
"""
