"""Read the commit log and reserve instants.

Imported by `timeline` and everything above. Read first: commit_log.py.
"""
