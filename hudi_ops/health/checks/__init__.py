"""The checks, one a module: the facts of a service, and their judgement."""

from __future__ import annotations

from hudi_ops.health.check import Check
from hudi_ops.health.checks import (
    buckets,
    clean_lag,
    files_kept,
    indexes,
    ingestion,
    metadata_table,
    plans,
    read_cost,
    small_files,
    timeline,
    writers,
)

CHECKS: tuple[Check, ...] = (
    read_cost.CHECK,
    small_files.CHECK,
    buckets.CHECK,
    clean_lag.CHECK,
    timeline.CHECK,
    plans.CHECK,
    writers.CHECK,
    ingestion.CHECK,
    indexes.CHECK,
    metadata_table.CHECK,
    files_kept.CHECK,
)
"""All checks, in the order of the documentation."""
