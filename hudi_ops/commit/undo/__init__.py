"""Cancel an instant and roll back its files.

Imported by `commit` and `services`. Read first: rollback.py.
"""
