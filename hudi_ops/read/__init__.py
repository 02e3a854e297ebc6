"""Plan and run reads: snapshot, earlier moments, changes.

Imported by `services` and everything above; does not import `commit`. Read first: plan.py.
"""
