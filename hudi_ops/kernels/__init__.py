"""Compute over Arrow arrays: keys, merges, conditions. No input or output.

Imported by `config` users and everything above. Read first: condition.py.
"""
