"""Split and merge the buckets of hash rings.

Imported by `table` and `cli`. Read first: choose.py.
"""
