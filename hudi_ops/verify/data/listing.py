"""Comparison of a table's metadata table, or its view, with a listing of storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.read.current_view import current_view
from hudi_ops.read.plan import Opened
from hudi_ops.storage.protocol import Storage
from hudi_ops.view.columns.slices import newest_slices, visible_slices
from hudi_ops.view.listing import Listing
from hudi_ops.view.slices import Slice

_SHOWN_MAX = 20


@dataclass(frozen=True)
class ListingCheck:
    """Differences between two listings of one table, among visible files.

    Attributes:
        named_by: what is compared with storage: the metadata table, or the view.
        files: number of files in both.
        missing: on storage, but not in the first listing: its readers do not see their rows.
        gone: in the first listing, but not on storage: its readers fail.
        other_size: of another size than in the first listing: Apache Hudi reads up to that size only.
    """

    named_by: str
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
        parts = [(f"not in {self.named_by}", self.missing), ("not on storage", self.gone)]
        parts.append(("of another size on storage", self.other_size))
        lines = [line for title, paths in parts if paths for line in _lines(title, paths)]
        same = f"{self.files} files the same by {self.named_by} and on storage"
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
    return _compared("the metadata table", named, stored)


def check_view(storage: Storage) -> ListingCheck:
    """Compare the view of a table, kept, stored or built, with a listing of storage.

    Raises:
        Corrupt: a file of the timeline cannot be read, or a data file is lost.
    """
    opened = Opened.of(storage)
    view = current_view(storage, opened.config, opened.timeline, opened.commits)
    stored = _seen(opened, open_listing(storage, opened.config, None, "storage"))
    return _compared("the view", _sizes(newest_slices(view).objects()), stored)


def _compared(named_by: str, named: Mapping[str, int], stored: Mapping[str, int]) -> ListingCheck:
    both = named.keys() & stored.keys()
    return ListingCheck(
        named_by=named_by,
        files=len(both),
        missing=tuple(sorted(stored.keys() - both)),
        gone=tuple(sorted(named.keys() - both)),
        other_size=tuple(sorted(path for path in both if named[path] != stored[path])),
    )


def _seen(opened: Opened, listing: Listing) -> dict[str, int]:
    return _sizes(visible_slices(opened.config, opened.timeline, opened.commits, listing.walk().files))


def _sizes(slices: Sequence[Slice]) -> dict[str, int]:
    files = [file for slice_ in slices for file in (*((slice_.base,) if slice_.base is not None else ()), *slice_.logs)]
    return {file.path: file.size_bytes for file in files}


def _lines(title: str, paths: Sequence[str]) -> list[str]:
    shown = [f"{title}: {path}" for path in paths[:_SHOWN_MAX]]
    return [*shown, f"… and {len(paths) - _SHOWN_MAX} more"] if len(paths) > _SHOWN_MAX else shown
