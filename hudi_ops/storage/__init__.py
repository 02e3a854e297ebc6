"""Read, put and list bytes on a disk, in memory or in an object store.

Imported by everything above. Read first: protocol.py.
"""
