"""Markers: empty files that name each data file for a rollback, and are put before it.

They are Apache Hudi's direct markers, type CREATE or MERGE, without a `MARKERS.type` file: the form that its own rollback reads
(docs/format §8.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hudi_ops.errors import NotFound
from hudi_ops.storage.paths import is_inside, is_path
from hudi_ops.storage.protocol import Storage

FOLDER = ".hoodie/.temp"
SHOWN_BYTES_MAX = 200
"""Most bytes that are shown of a line that names no data file."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MARKER = re.compile(r"(?P<data>.+)\.marker\.(?P<kind>CREATE|MERGE|APPEND)")


@dataclass(frozen=True, slots=True)
class Marker:
    """A data file that an attempt may have written, and CREATE, MERGE or APPEND."""

    data_path: str
    kind: str


@dataclass(frozen=True, slots=True)
class Announced:
    """Markers of an attempt by path, and the lines that name no data file of the table, as text."""

    markers: tuple[Marker, ...] = ()
    set_aside: tuple[str, ...] = ()


def put_marker(storage: Storage, instant: str, data_path: str, *, replaces: bool) -> None:
    """Announce a data file; `replaces`: an older slice of its group exists."""
    storage.put(marker_path(instant, data_path, replaces=replaces), b"")


def marker_path(instant: str, data_path: str, *, replaces: bool) -> str:
    """Return the path of a data file's marker."""
    return f"{FOLDER}/{instant}/{data_path}.marker.{'MERGE' if replaces else 'CREATE'}"


def list_markers(storage: Storage, instant: str) -> list[Marker]:
    """Return the data files that an attempt announced, without damaged lines."""
    return list(read_markers(storage, instant).markers)


def read_markers(storage: Storage, instant: str) -> Announced:
    """Read direct markers, and those of a timeline server (docs/format §8.2)."""
    prefix = f"{FOLDER}/{instant}/"
    found: set[Marker] = set()
    set_aside: list[str] = []
    for info in storage.list(prefix.rstrip("/")):
        name = info.path.removeprefix(prefix)
        if re.fullmatch(r"MARKERS\d+", name):
            _read_lines(storage, info.path, found, set_aside)
        # Beside direct markers there are MARKERS.type and Hadoop's checksum files, which name nothing.
        elif match := _MARKER.fullmatch(name):
            found.add(Marker(match["data"], match["kind"]))
    return Announced(tuple(sorted(found, key=lambda marker: marker.data_path)), tuple(set_aside))


def delete_markers(storage: Storage, instant: str) -> None:
    """Remove the markers of a completed or rolled back instant."""
    for info in storage.list(f"{FOLDER}/{instant}"):
        storage.delete(info.path)


def _read_lines(storage: Storage, path: str, found: set[Marker], set_aside: list[str]) -> None:
    """Read a file of markers, one per line; a damaged line does not affect the others."""
    try:
        lines = storage.get(path).splitlines()
    except NotFound:
        return
    for number, line in enumerate(lines, 1):
        try:
            match = _MARKER.fullmatch(line.decode())
        except UnicodeDecodeError:
            match = None
        if match is not None and _is_data_path(match["data"]):
            found.add(Marker(match["data"], match["kind"]))
        elif line.strip():
            set_aside.append(f"line {number} of {path}: {line[:SHOWN_BYTES_MAX]!r}")


def _is_data_path(path: str) -> bool:
    """Return whether a text is a valid data path: inside the table, outside `.hoodie`, storable."""
    return is_path(path) and not is_inside(path, ".hoodie") and _CONTROL.search(path) is None
