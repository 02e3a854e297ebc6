"""Read and write the timeline and the commit log.

Imported by `concurrency` and everything above. Read first: active.py, then log/commit_log.py.
"""
