"""Completed instants that changed a table's files, and a digest that changes with them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant

_CHANGING = frozenset({"commit", "deltacommit", "replacecommit", "clean", "restore"})
"""Rollbacks are left out: a rollback of a completed write changes the digest, since the write's instant is missing."""


def changing(timeline: Timeline) -> frozenset[Instant]:
    """Return the completed instants that may have changed files."""
    return frozenset(instant for instant in timeline if instant.is_completed and instant.kind in _CHANGING)


def digest_of(instants: Iterable[Instant]) -> str:
    """Return a digest of instants that does not depend on their order.

    >>> digest_of([])
    'e3b0c44298fc1c14'
    """
    names = sorted(instant.file_name for instant in instants)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
