"""Describe a table and its timeline.

Read first: summary.py.
"""
