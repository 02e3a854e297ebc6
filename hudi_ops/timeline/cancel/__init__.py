"""Decide when a plan may be cancelled, and keep records of cancelled plans (RFC-79).

Imports `timeline.log`. Read first: aborted.py.
"""
