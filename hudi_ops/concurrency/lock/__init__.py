"""Provide table locks: in this process, or over ZooKeeper.

Imported by `concurrency` and everything above. Read first: locks.py.
"""
