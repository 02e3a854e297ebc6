"""Airflow DAG `health`: judge all tables, and give an alarm where trouble lasts."""

from __future__ import annotations

from hudi_ops.plugins.hudi_ops_health import health_dag

DOC = """
### Judge the health of the Hudi tables

**judge** compares each table of tables.yaml with its targets (key `targets`), and changes nothing: 100 tables a task, several at a
time. Its result has a verdict for each table: the missed targets, since when, why, and the command that mends it. A table that
cannot be read has a verdict with the error, and delays no other.

**report** sums the verdicts up. It fails when a target is missed for longer than its `tolerate`, and then calls the function of
`HUDI_OPS_ON_FAILURE` once for each such table, with the keys `table` and `verdict` beside Airflow's; while the trouble stays, the
next runs fail, but do not call it again. Verdicts are kept in the state store of the asset `hudi://<table>`.

The DAG runs every hour. `HUDI_OPS_HEALTH_SCHEDULE` is another schedule; empty or `none`, it runs when it is triggered.

| field | value |
|---|---|
| table | A table of tables.yaml. Default: all. |
"""

health = health_dag(DOC)
