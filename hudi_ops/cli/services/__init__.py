"""Commands that run table services.

Imported by `cli.main`. Read first: compact.py.
"""
