"""Comparison of the two listings of a table: by its metadata table, and of storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.read.plan import Opened
from hudi_ops.storage.protocol import Storage
from hudi_ops.view.columns.slices import visible_slices
from hudi_ops.view.listing import Listing
from hudi_ops.view.slices import Slice

_SHOWN_MAX = 20


@dataclass(frozen=True)
class ListingCheck:
    """Differences between two listings of one table, among visible files.

    Attributes:
        files: number of files in both.
        missing: on storage, but not in the metadata table: its readers do not see their rows.
        gone: in the metadata table, but not on storage: its readers fail.
        other_size: of another size than in the metadata table: Apache Hudi reads up to that size only.
    """

    files: int
    missing: tuple[str, ...]
    gone: tuple[str, ...]
    other_size: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether the listings are equal."""
        return not (self.missing or self.gone or self.other_size)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"is_same": self.is_same, **asdict(self)}

    def __str__(self) -> str:
        parts = [("not in the metadata table", self.missing), ("not on storage", self.gone)]
        parts.append(("of another size on storage", self.other_size))
        lines = [line for title, paths in parts if paths for line in _lines(title, paths)]
        same = f"{self.files} files the same by the metadata table and on storage"
        return "\n".join([*lines, same if self.is_same else "the listings differ"])


def check_listing(storage: Storage) -> ListingCheck:
    """Compare both listings of a table.

    Raises:
        Unsupported: the table has no metadata table.
        Corrupt: a file of the metadata table does not follow its format.
    """
    opened = Opened.of(storage)
    metadata = open_metadata(storage, opened.config, opened.timeline)
    named = _seen(opened, open_listing(storage, opened.config, metadata, "metadata"))
    stored = _seen(opened, open_listing(storage, opened.config, None, "storage"))
    both = named.keys() & stored.keys()
    return ListingCheck(
        files=len(both),
        missing=tuple(sorted(stored.keys() - both)),
        gone=tuple(sorted(named.keys() - both)),
        other_size=tuple(sorted(path for path in both if named[path] != stored[path])),
    )


def _seen(opened: Opened, listing: Listing) -> dict[str, int]:
    slices: Sequence[Slice] = visible_slices(opened.config, opened.timeline, opened.commits, listing.walk().files)
    files = [file for slice_ in slices for file in (*((slice_.base,) if slice_.base is not None else ()), *slice_.logs)]
    return {file.path: file.size_bytes for file in files}


def _lines(title: str, paths: Sequence[str]) -> list[str]:
    shown = [f"{title}: {path}" for path in paths[:_SHOWN_MAX]]
    return [*shown, f"… and {len(paths) - _SHOWN_MAX} more"] if len(paths) > _SHOWN_MAX else shown
