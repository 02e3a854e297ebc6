"""Completed instants that changed a table's files, and a digest that changes with them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant

CHANGING = frozenset({"commit", "deltacommit", "replacecommit", "clean", "restore"})
"""Rollbacks are left out: a rollback of a completed write changes the digest, since the write's instant is missing."""


def changing(timeline: Timeline) -> frozenset[Instant]:
    """Return the completed instants that may have changed files."""
    return frozenset(instant for instant in timeline if instant.is_completed and instant.kind in CHANGING)


def digest_of(instants: Iterable[Instant]) -> str:
    """Return a digest of instants that does not depend on their order, as 64 hexadecimal digits.

    >>> digest_of([])[:16]
    'e3b0c44298fc1c14'
    """
    names = sorted(instant.file_name for instant in instants)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def logged_digest(instants: Iterable[Instant]) -> str:
    """Return the first 16 digits of `digest_of`, which entries of the commit log hold."""
    return digest_of(instants)[:16]


def state_digest(table_id: str, timeline: Timeline) -> str:
    """Return the digest that names the files of a table at a reading of its timeline (RFC-03).

    It has the table's id, the start of the timeline, and the completed instants from there on that may have changed files. Pending
    instants, savepoints and indexing change no visible file.
    """
    return digest_above(table_id, timeline.start, changing(timeline))


def digest_above(table_id: str, start: str, instants: Iterable[Instant]) -> str:
    """Return the digest of the instants from a start on.

    It is `state_digest` of a timeline with this start and these instants.
    """
    counted = digest_of(one for one in instants if one.time >= start)
    return hashlib.sha256("\n".join((table_id, start, counted)).encode()).hexdigest()
