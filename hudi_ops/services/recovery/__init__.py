"""Roll back dead attempts, repair the properties file, alter recorded settings.

Imported by `table` and `cli`. Read first: attempts.py.
"""
