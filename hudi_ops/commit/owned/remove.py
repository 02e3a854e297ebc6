"""Remove files of instants by the rows of `kinds.py`.

Source: docs/protocol §7, §8, §23.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from hudi_ops.commit.owned import kinds
from hudi_ops.commit.owned.kinds import OwnedKind, Part, Reason, Removal
from hudi_ops.errors import Internal
from hudi_ops.storage.protocol import Storage

_CHECKSUM = re.compile(r"^(.*/)?\.([^/]+)\.crc$")

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


def remove_paths(storage: Storage, reason: Reason, paths: Iterable[str], *, ordered: bool = False) -> None:
    """Delete files whose paths the caller knows, in the order of `KINDS`.

    Paths of one kind keep their order. Without `ordered` they go in one request where storage supports it: a failure may leave any
    of them.

    Raises:
        Internal: by no row does a path go for this reason; nothing was deleted.
        Unavailable: some of them may still exist.
    """
    rows = [kind for kind in kinds.KINDS if reason in kind.reasons]
    by_rank = sorted(paths, key=lambda path: _rank(path, rows, reason))
    if by_rank:
        storage.delete_all(by_rank, ordered=ordered)


def _rank(path: str, rows: Iterable[OwnedKind], reason: Reason) -> int:
    owned = _CHECKSUM.sub(r"\1\2", path) if path.endswith(".crc") else path
    for rank, kind in enumerate(rows):
        if kind.owner(owned):
            return rank
    raise Internal(
        f"a file was to be deleted because {reason}, and no kind of such files has it",
        expected="a row of commit/owned/kinds.py",
        found=path,
        next_step="report this text; the file stays",
    )


def order_of(removal: Removal, parts: Collection[Part]) -> list[OwnedKind]:
    """Return the kinds that a removal deletes, in order."""
    return [kind for kind in kinds.KINDS if kind.part in parts and removal.reason in kind.reasons]


def checksum_of(path: str) -> str:
    """Return the path of the checksum file that Hadoop's local file system puts beside a file."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"
