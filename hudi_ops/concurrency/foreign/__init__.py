"""Find foreign writers, which write without the commit log, and wait for them.

Imported by `concurrency` and everything above. Read first: foreign_writers.py. One function answers each question about them:

- May Apache Hudi share this table? `foreign_writers.has_foreign_writers`. Automatic services ask `has_foreign_write` beside it;
  each commit records whether it ever did (`commit/decide/complete.py: is_shared_table`).
- Did this table come from Apache Hudi? `CommitReader.was_adopted` in `timeline/state.py`, which remembers the answer.
- Whose is this instant? `foreign_instants.may_be_foreign`.
- May its process be alive? `foreign_instants.is_dead`. Without a heartbeat it cannot be told: `silent_writers` refuses such writes.
- May Apache Hudi be executing this plan? `foreign_instants.has_foreign_executor`.
"""
