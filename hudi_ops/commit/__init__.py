"""Run the protocol of one instant: reserve, complete, apply, undo and recover it.

Imported by `services` and everything above; does not import `read`. Read first: session.py, then decide/complete.py.
"""
