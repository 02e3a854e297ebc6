"""Merge records of the same key.

Imported by `kernels` and everything above. Read first: merge.py.
"""
