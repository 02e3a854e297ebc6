"""Sort rows by columns or along a space-filling curve.

Imported by `services`. Read first: sort.py.
"""
