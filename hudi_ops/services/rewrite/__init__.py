"""Rewrite file groups: what compaction, clustering and resize share, from choice to result.

Imported by these three, and by the checks of health. Read first: service.py.
"""
