"""Markers: an empty file per data file, created before it, so that a rollback knows what to delete without listing.

They are Apache Hudi's direct markers, type CREATE or MERGE, without a `MARKERS.type` file: the form its own rollback
understands (docs/format.md §8.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hudi_ops.errors import NotFound
from hudi_ops.storage.protocol import Storage

FOLDER = ".hoodie/.temp"
_MARKER = re.compile(r"(?P<data>.+)\.marker\.(?P<kind>CREATE|MERGE|APPEND)")


@dataclass(frozen=True, slots=True)
class Marker:
    """One data file that an attempt may have written: its path below the table's root, and CREATE, MERGE or APPEND."""

    data_path: str
    kind: str


def put_marker(storage: Storage, instant: str, data_path: str, *, replaces: bool) -> None:
    """Announce a data file; `replaces` says that an older slice of its group exists."""
    storage.put(marker_path(instant, data_path, replaces=replaces), b"")


def marker_path(instant: str, data_path: str, *, replaces: bool) -> str:
    """Path of the marker of a data file."""
    return f"{FOLDER}/{instant}/{data_path}.marker.{'MERGE' if replaces else 'CREATE'}"


def list_markers(storage: Storage, instant: str) -> list[Marker]:
    """Data files that an attempt announced: direct markers, and those a timeline server wrote (docs/format.md §8.2)."""
    prefix = f"{FOLDER}/{instant}/"
    found = []
    for info in storage.list(prefix.rstrip("/")):
        name = info.path.removeprefix(prefix)
        if re.fullmatch(r"MARKERS\d+", name):
            try:
                lines = storage.get(info.path).decode().splitlines()
            except NotFound:
                continue
            found += [_parse(line) for line in lines]
        else:
            found.append(_parse(name))
    return sorted({marker for marker in found if marker is not None}, key=lambda marker: marker.data_path)


def delete_markers(storage: Storage, instant: str) -> None:
    """Remove an instant's markers; what they announced must be settled by then."""
    for info in storage.list(f"{FOLDER}/{instant}"):
        storage.delete(info.path)


def _parse(name: str) -> Marker | None:
    match = _MARKER.fullmatch(name)
    return Marker(match["data"], match["kind"]) if match else None
