"""Build and drop partitions of the metadata table.

Read first: run.py, then service.py, execute.py and filling/build.py.
"""
