"""Rewrite the slices of a plan group: task, reading and result.

Imported by the kinds of services. Read first: task.py.
"""
