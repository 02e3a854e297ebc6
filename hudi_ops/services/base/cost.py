"""Compare what a run was expected to cost with what it cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes in and out, seconds, and bytes of memory at a time: estimated or measured. None: not measured."""

    bytes_in: int
    bytes_out: int
    seconds: float
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class CostError:
    """Relative errors of an estimate: measured divided by expected, less 1. None where either is unknown."""

    bytes_out: float | None
    seconds: float | None
    memory_bytes: float | None


def error_of(expected: Cost, was: Cost) -> CostError:
    """Return the relative errors of an estimate."""
    return CostError(
        bytes_out=_error(expected.bytes_out, was.bytes_out),
        seconds=_error(expected.seconds, was.seconds),
        memory_bytes=_error(expected.memory_bytes, was.memory_bytes),
    )


def _error(expected: float | None, was: float | None) -> float | None:
    return round(was / expected - 1, 3) if expected and was is not None else None
