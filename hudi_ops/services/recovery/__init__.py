"""Roll back dead attempts, repair the properties file, and alter recorded settings on request.

Imported by `table` and `cli`. Read first: attempts.py.
"""
