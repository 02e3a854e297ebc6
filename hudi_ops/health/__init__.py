"""Judge tables: which check misses its target, since when, why, and what mends it.

A check asks a service for facts (`checks/`, measures in `services/<kind>/`), and judges them by the targets of `tables.yaml`. Facts
change with the table, ages with the clock: a verdict has its facts and the state that they come from, so the next verdict of an
unchanged table reads nothing else. Read `health.py` first.

Imported by `table`, the command line and the DAG. Imports services and everything below.
"""
