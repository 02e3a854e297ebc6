"""Choose the file group of each incoming row.

Imported by `services.write`. Read first: routes.py.
"""
