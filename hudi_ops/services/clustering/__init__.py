"""Merge small files and sort their rows.

Read first: service.py.
"""
