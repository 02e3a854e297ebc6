"""Tag, merge and append rows: the tasks that engines run.

Imported by `services.write`. Read first: tag.py.
"""
