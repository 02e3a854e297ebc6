"""Compare the estimated cost of a run with the measured cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """Estimated or measured cost of a run. `memory_bytes` is the peak; None: not measured."""

    bytes_in: int
    bytes_out: int
    seconds: float
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class CostError:
    """Relative errors of an estimate: measured / expected - 1; None where either is unknown."""

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
