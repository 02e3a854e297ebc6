"""Hold and renew leases, which say which process works on an instant.

Imported by `concurrency` and everything above. Read first: lease.py.
"""
