"""Build record keys and hash them.

Imported by `kernels` and everything above. Read first: keys.py.
"""
