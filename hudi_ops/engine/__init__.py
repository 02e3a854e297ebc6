"""Run tasks in threads of this process or on Spark executors.

Imported by `context` and everything above. Read first: protocol.py.
"""
