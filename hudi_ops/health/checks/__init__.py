"""The checks, one a module: the facts of a service, and their judgement."""

from __future__ import annotations

from hudi_ops.health.check import Check

CHECKS: tuple[Check, ...] = ()
"""All checks, in the order of the documentation."""
