"""Remove the files of an instant by the rows of `kinds.py`.

Source: docs/protocol §7, §8, §23.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from hudi_ops.commit.owned import kinds
from hudi_ops.commit.owned.kinds import OwnedKind, Part, Removal

LOST_AT_ONCE = frozenset({Part.CONTENT, Part.TIMELINE})
"""Parts that an undone instant loses first; its traces go later (docs/protocol §8)."""


def remove(
    removal: Removal, parts: Collection[Part] = LOST_AT_ONCE, *, check: Callable[[], None] = lambda: None
) -> list[str]:
    """Delete the files of an instant in the order of `KINDS`; return their paths.

    Every step can be repeated, by any process.

    Args:
        removal: instant, reason, and what narrows it.
        parts: that are removed.
        check: called before each deletion; may raise to stop.
    """
    removed: list[str] = []
    for kind in order_of(removal, parts):
        for path in kind.find(removal):
            check()
            removal.session.ctx.storage.delete(path)
            if removal.is_foreign and kind.has_checksum:
                removal.session.ctx.storage.delete(checksum_of(path))
            removed.append(path)
    return removed


def order_of(removal: Removal, parts: Collection[Part]) -> list[OwnedKind]:
    """Return the kinds that a removal deletes, in order."""
    return [kind for kind in kinds.KINDS if kind.part in parts and removal.reason in kind.reasons]


def checksum_of(path: str) -> str:
    """Return the path of the checksum file that Hadoop's local file system puts beside a file."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"
