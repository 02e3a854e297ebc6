"""Do what reads or changes a table, in a child process of the API server.

`operations.py` has the operations, `command.py` reads the words of commands. Read `__main__.py` first: `page.child` starts it as a
program, and nothing else imports this package.
"""
