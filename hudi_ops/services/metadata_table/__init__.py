"""Compact and describe the metadata table.

Read first: compact.py.
"""
