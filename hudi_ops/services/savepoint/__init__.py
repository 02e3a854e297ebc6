"""Savepoints: keep the files and the instant of a completed write.

Imported by `table` and the services above it. Read first: savepoints.py.
"""
