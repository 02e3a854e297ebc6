"""Read the slices of a plan group, for tasks that rewrite them.

Imported by the kinds of services. Read first: sources.py.
"""
