"""Read and write log files, and merge their records.

Imported by `files` and everything above. Read first: log_file.py.
"""
