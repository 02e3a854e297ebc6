"""Encode partitions of a state, and cache what was encoded within a budget."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hudi_ops.server.states import HeldState
from hudi_ops.view.columns.files import FileColumns
from hudi_ops.view.columns.slices import newest_slices
from hudi_ops.view.remote.wire import Head, Part, encode

Key = tuple[int, str, bool]
"""Number of a state, partition path, and whether only its newest slices are encoded."""

_OVERHEAD_BYTES = 400
"""Memory of an entry beside its bytes."""


@dataclass
class Cache:
    """Encoded partitions of all tables; those that were used longest ago go first.

    Only the event loop uses it.
    """

    limit_bytes: int
    bytes: int = 0
    hits: int = 0
    misses: int = 0
    _parts: OrderedDict[Key, Part] = field(default_factory=OrderedDict)

    def get(self, key: Key) -> Part | None:
        """Return an encoded partition."""
        found = self._parts.get(key)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self._parts.move_to_end(key)
        return found

    def put(self, key: Key, part: Part) -> None:
        """Add an encoded partition, unless it alone is above the budget."""
        if key in self._parts or _bytes_of(key, part) > self.limit_bytes:
            return
        self._parts[key] = part
        self.bytes += _bytes_of(key, part)
        while self.bytes > self.limit_bytes:
            old, gone = self._parts.popitem(last=False)
            self.bytes -= _bytes_of(old, gone)

    def __len__(self) -> int:
        return len(self._parts)


def _bytes_of(key: Key, part: Part) -> int:
    return len(part.message) + len(key[1]) + _OVERHEAD_BYTES


def encode_parts(state: HeldState, partitions: Sequence[str], *, is_newest: bool) -> dict[str, Part]:
    """Encode partitions of a state; one that it does not have has no rows.

    Raises:
        HudiOpsError: the history cannot be read, and the slice of a log file depends on it.
    """
    view = state.view.of_partitions(partitions)
    files = view.files
    if is_newest and files.count:
        kept = np.zeros(files.count, bool)
        kept[newest_slices(view).rows] = True
        files = files.filter(kept)
    return _parts(files)


def _parts(files: FileColumns) -> dict[str, Part]:
    bounds = files.offsets.tolist()
    return {
        path: Part.of(files.rows.slice(bounds[at], bounds[at + 1] - bounds[at]))
        for at, path in enumerate(files.partitions)
    }


def estimated_bytes(files: FileColumns, partitions: Sequence[str]) -> int:
    """Estimate the bytes that an answer about partitions takes, with the parts it is made of."""
    places = np.array([at for path in partitions if (at := files.find(path)) >= 0], np.int64)
    rows = int(np.diff(files.offsets)[places].sum())
    return 2 * (_OVERHEAD_BYTES * len(partitions) + rows * files.bytes // max(1, files.count))


def size_of(parts: Sequence[Part]) -> int:
    """Return the bytes of encoded partitions."""
    return sum(len(part.message) for part in parts)


def files_answer(
    state: HeldState, about: tuple[str, str, str], parts: dict[str, Part], *, is_newest: bool, is_whole: bool
) -> bytes:
    """Return the answer to a question for files.

    `about` is the table's id, the start and the digest that were asked for.

    The answer about the whole table has the files ahead of pending resizes, with which a caller continues the view.
    """
    paths = sorted(parts)
    ahead = state.view.ahead if is_whole else state.view.ahead.of_partitions(())
    aheads = _parts(ahead)
    head = Head(
        *about,
        is_newest=is_newest,
        has_rows=True,
        partitions=tuple((path, parts[path].rows) for path in paths),
        replaced=tuple(group for path in paths for group in state.replaced.get(path, ())),
        ahead=tuple((path, aheads[path].rows) for path in sorted(aheads)),
    )
    return encode(head, (parts[path] for path in paths), (aheads[path] for path in sorted(aheads)))


def partitions_answer(state: HeldState, about: tuple[str, str, str]) -> bytes:
    """Return the names of all partitions and their numbers of files."""
    files = state.view.files
    counts = zip(files.partitions, np.diff(files.offsets).tolist(), strict=True)
    return encode(Head(*about, is_newest=False, has_rows=False, partitions=tuple(counts)), ())
