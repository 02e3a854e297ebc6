"""Say when a plan may be cancelled, and keep the record of one that was (RFC-79).

Imports `timeline.log`. Read first: aborted.py.
"""
