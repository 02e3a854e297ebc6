"""Apply decided slots to the timeline, the properties file and the metadata table.

Imported by `commit` and `services`. Read first: decided.py.
"""
