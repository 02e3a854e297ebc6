"""Find foreign writers, which write without the commit log, and wait for them.

Imported by `concurrency` and everything above. Read first: foreign_writers.py.
"""
