"""Roll back dead attempts and repair the properties file on request.

Imported by `table` and `cli`. Read first: attempts.py.
"""
