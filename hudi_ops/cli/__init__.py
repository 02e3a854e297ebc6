"""Commands of `hudi-ops`, a module each, and the options and output that they share.

Nothing imports it. Read first: main.py.
"""
