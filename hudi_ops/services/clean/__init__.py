"""Delete the files of slices that no retained instant needs.

Source: docs/protocol §20. Imported by `table`; imports `base`. Read first: policy.py, then choose.py.
"""
