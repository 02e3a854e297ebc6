"""Commands that show and protect locks, and that start a ZooKeeper server.

Imported by `cli.main`. Read first: lock.py.
"""
