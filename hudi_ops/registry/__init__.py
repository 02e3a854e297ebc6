"""Keep verdicts and runs of tables in a SQL database. `rebuild` restores it from the tables.

A table on storage is the only source of truth: no commit and no service needs the registry, and no error of its database fails one
(`best_effort.py`). Read `schema.py` first.

Imported by the command line, the page, Spark applications and plugins. Imports `table` and everything below. SQLAlchemy and Alembic
come with the extra `registry`, and are imported here alone.
"""
