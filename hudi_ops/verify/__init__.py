"""Invariant checks of a table: `hudi-ops verify`, and the oracle of every simulation."""

from hudi_ops.verify.invariants import verify_table
from hudi_ops.verify.report import Finding, Report

__all__ = ["Finding", "Report", "verify_table"]
