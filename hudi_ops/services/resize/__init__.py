"""Split and merge the buckets of hash rings.

Read first: service.py.
"""
