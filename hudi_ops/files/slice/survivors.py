"""Keep which rows of merged slices survive, for later reads of this process.

Base files and log files never change, so the outcome of merging a slice depends on its files, on the log blocks that count and on
the merge rules alone. A later read of the slice needs neither keys nor ordering values. On a local disk the time of each file's
last change is part of the key, so that a file that was restored from a copy, or damaged, is merged anew.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from hudi_ops.storage.protocol import Storage

CACHE_BYTES = 32 << 20
"""Memory that a process uses for survivors: one bit for each base row, and four bytes for each log row that survives."""

_ENTRY_BYTES, _BLOCK_BYTES = 2_000, 600
"""Estimates for a slice, and for each of its log blocks, whose files its key names."""

C = TypeVar("C")


@dataclass(frozen=True, eq=False)
class Survivors(Generic[C]):
    """Outcome of merging a whole slice.

    Attributes:
        kept: one bit for each base row: whether it survives; None: all do.
        rows: number of base rows.
        taken: numbers of the log entries that survive.
        places: first entry, number of entries and position of each data block that counts.
        counts: what merging counted.
    """

    kept: npt.NDArray[np.uint8] | None
    rows: int
    taken: npt.NDArray[np.int32]
    places: tuple[tuple[int, int, int], ...]
    counts: C

    @classmethod
    def of(
        cls,
        keep: npt.NDArray[np.bool_] | None,
        taken: npt.NDArray[np.int64],
        places: Sequence[tuple[int, int, int]],
        counts: C,
    ) -> Survivors[C]:
        """Return an outcome in its kept form."""
        kept = np.packbits(keep) if keep is not None else None
        return cls(kept, len(keep) if keep is not None else 0, taken.astype(np.int32), tuple(places), counts)

    @property
    def keep(self) -> npt.NDArray[np.bool_] | None:
        """Mask of the base rows that survive; None: all do."""
        return np.unpackbits(self.kept, count=self.rows).astype(bool) if self.kept is not None else None

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes in memory."""
        masks = (self.kept.nbytes if self.kept is not None else 0) + self.taken.nbytes
        return masks + _ENTRY_BYTES + _BLOCK_BYTES * len(self.places)


class SurvivorCache(Generic[C]):
    """Survivors of the slices that were read last, within a number of bytes.

    Safe between threads.
    """

    def __init__(self, bytes_max: int = CACHE_BYTES) -> None:
        self._bytes_max = bytes_max
        self._held: OrderedDict[Hashable, Survivors[C]] = OrderedDict()
        self._lock = threading.Lock()
        self.size_bytes = 0
        """Bytes of all kept survivors."""

    def get(self, key: Hashable) -> Survivors[C] | None:
        """Return the survivors of a slice, if they are kept."""
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
            return found

    def put(self, key: Hashable, survivors: Survivors[C]) -> None:
        """Keep the survivors of a slice; those that were not used for the longest time go."""
        with self._lock:
            before = self._held.pop(key, None)
            self._held[key] = survivors
            self.size_bytes += survivors.size_bytes - (before.size_bytes if before is not None else 0)
            while self.size_bytes > self._bytes_max:
                _, gone = self._held.popitem(last=False)
                self.size_bytes -= gone.size_bytes

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._held.clear()
            self.size_bytes = 0


def identity_of(storage: Storage, paths: Sequence[tuple[str, int]]) -> Hashable | None:
    """Return what identifies files; None for a storage whose URI others may share.

    `paths` are paths and sizes.
    """
    uri = storage.uri
    if uri.startswith("memory:"):
        return None
    if not uri.startswith("file:"):
        return (uri, *paths)
    infos = [storage.head(path) for path, _ in paths]
    return (uri, *paths, *(info.modified_ms if info is not None else None for info in infos))
