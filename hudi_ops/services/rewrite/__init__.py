"""Rewrite file groups: what compaction, clustering and resize share, from choice to result.

Read first: service.py.
"""
