"""Completed instants after which a table has other files, and a digest of them: has anything completed since?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant

_CHANGING = frozenset({"commit", "deltacommit", "replacecommit", "clean", "restore"})
"""A rollback that takes off a completed write shows by what is missing."""


def changing(timeline: Timeline) -> frozenset[Instant]:
    """Completed instants that may have changed files."""
    return frozenset(one for one in timeline if one.is_completed and one.kind in _CHANGING)


def digest_of(instants: Iterable[Instant]) -> str:
    """A digest of instants, whatever their order.

    >>> digest_of([])
    'e3b0c44298fc1c14'
    """
    names = sorted(one.file_name for one in instants)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
