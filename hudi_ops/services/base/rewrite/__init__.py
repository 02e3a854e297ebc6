"""Rewrite the slices of a plan group: task, service and result.

Imported by the kinds of services. Read first: task.py.
"""
