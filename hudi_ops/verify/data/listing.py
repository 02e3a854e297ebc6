"""The metadata table's listing against that of storage: which files that readers see does only one of them have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hudi_ops.metadata.reader.listing import open_listing
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.read.plan import Opened
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.listing import Listing
from hudi_ops.view.slices import Slice, visible_slices

_SHOWN_MAX = 20


@dataclass(frozen=True)
class ListingCheck:
    """What two listings of one table differ in, among the files that readers see.

    Attributes:
        files: how many both have.
        missing: on storage, but not in the metadata table: readers that use it do not see their rows.
        gone: in the metadata table, but not on storage: readers that use it fail.
        other_size: of another size than the metadata table says: Apache Hudi reads no further than that.
    """

    files: int
    missing: tuple[str, ...]
    gone: tuple[str, ...]
    other_size: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether they differ in nothing."""
        return not (self.missing or self.gone or self.other_size)

    def as_dict(self) -> dict[str, Any]:
        """By name."""
        return {"is_same": self.is_same, **asdict(self)}

    def __str__(self) -> str:
        parts = [("not in the metadata table", self.missing), ("not on storage", self.gone)]
        parts.append(("of another size on storage", self.other_size))
        lines = [line for title, paths in parts if paths for line in _lines(title, paths)]
        said = "the same by the metadata table and on storage" if self.is_same else "differ"
        return "\n".join([*lines, f"{self.files} files {said}" if self.is_same else f"the listings {said}"])


def check_listing(storage: Storage, commits: CommitReader | None = None) -> ListingCheck:
    """Compare both listings of a table as it is now.

    Raises:
        Unsupported: there is no metadata table to list by.
        Corrupt: a file of the metadata table does not follow its format.
    """
    opened = Opened.of(storage, commits)
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
    files = [file for one in slices for file in (*((one.base,) if one.base is not None else ()), *one.logs)]
    return {file.path: file.size_bytes for file in files}


def _lines(title: str, paths: Sequence[str]) -> list[str]:
    shown = [f"{title}: {path}" for path in paths[:_SHOWN_MAX]]
    return [*shown, f"… and {len(paths) - _SHOWN_MAX} more"] if len(paths) > _SHOWN_MAX else shown
