"""Roll back dead attempts, repair the properties file, alter recorded settings.

Read first: attempts.py.
"""
