"""Build and drop partitions of the metadata table.

Imported by `services` above it, `table` and `cli`. Read first: build.py.
"""
