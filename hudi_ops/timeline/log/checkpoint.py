"""Progress of a reader of changes, as a text that it keeps between two reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hudi_ops.errors import InvalidRequest
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.names import REWRITING_ACTIONS

_WORD = "hudi-ops-changes"
_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Consumed writes: all that completed at or before `completed`, except those in `open`.

    Attributes:
        completed: a completion time; empty for nothing at all.
        instant: request time of the consumed write that completed last. The checkpoint is valid only while the table has this
            write: a restore removes it, and another table under the path never had it.
        table_id: id of the table in its commit log; empty for a table without one.
        open: request times of writes that were not consumed, but whose completion time may be at or below `completed`: writes of a
            foreign writer whose clock is behind, or writes that a single listing missed.
    """

    completed: str = ""
    instant: str = ""
    table_id: str = ""
    open: tuple[str, ...] = ()

    def encode(self) -> str:
        """Encode as text without blanks, opaque for callers."""
        return ":".join((_WORD, _VERSION, self.table_id, self.completed, self.instant, ",".join(self.open)))

    @classmethod
    def decode(cls, text: str) -> Checkpoint:
        """Decode a text of `encode`.

        Raises:
            InvalidRequest: it is not a checkpoint, or one of a later release.
        """
        word, _, rest = text.strip().partition(":")
        parts = rest.split(":")
        times = parts[2:4] + (parts[4].split(",") if parts[4:] and parts[4] else [])
        if word != _WORD or len(parts) != 5 or parts[0] != _VERSION or not all(not t or t.isdigit() for t in times):
            raise InvalidRequest(
                "this is not a checkpoint of this release",
                expected=f"the text that a read of changes returned, {_WORD}:{_VERSION}:…",
                found=text[:80],
                next_step="pass it unchanged; without it, read the table and begin with that read's checkpoint",
            )
        return cls(parts[2], parts[3], parts[1], tuple(parts[4].split(",")) if parts[4] else ())

    def is_consumed(self, time: str, completion_time: str) -> bool:
        """Return whether the checkpoint includes the write of these request and completion times."""
        return bool(self.completed) and completion_time <= self.completed and time not in self.open


def is_checkpoint(text: str) -> bool:
    """Return whether a text has the form of a checkpoint."""
    return text.strip().startswith(f"{_WORD}:")


def brings_rows(instant: Instant) -> bool:
    """Return whether a pending instant may add rows; table services only carry rows over."""
    return instant.is_write and instant.action not in REWRITING_ACTIONS


def still_open(instants: Iterable[Instant], consumed: frozenset[str], upto: str) -> tuple[str, ...]:
    """Return the writes that a checkpoint at completion time `upto` records as not consumed.

    `consumed` holds request times.
    """
    return tuple(
        instant.time
        for instant in instants
        if brings_rows(instant)
        and instant.time not in consumed
        and (not instant.is_completed or instant.completion_time <= upto)
    )
