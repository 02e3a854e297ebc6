"""Describe a table and its timeline.

Imported by `cli`. Read first: summary.py.
"""
