"""Read the merged rows or keys of one file slice.

Imported by `files` and everything above. Read first: slice_scan.py.
"""
