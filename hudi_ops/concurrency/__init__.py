"""Decide conflicts between writers: attempts, locks, leases, markers and the slot.

Imported by `view` and everything above. Read first: attempt.py, then transaction.py.
"""
