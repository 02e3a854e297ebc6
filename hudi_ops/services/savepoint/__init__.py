"""Savepoints: protect the files of a completed write from cleans, and its instant from archiving.

Imported by `table` and the services above it. Read first: savepoints.py.
"""
