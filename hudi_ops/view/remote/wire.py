"""Wire form of the timeline server: paths, questions and answers.

An answer has two Arrow streams with the columns of `ROWS` (the files, one batch for each partition, and the files ahead of pending
resizes), a description as JSON, and an end of 24 bytes: the lengths of the three, and the XXH3-64 of all bytes before the end.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import xxhash

from hudi_ops.view.columns.files import ROWS

FORMAT = 1
"""Version of the form; an answer of another version is not used."""

MEDIA_TYPE = "application/vnd.hudi-ops.view"
DEADLINE_HEADER = "hudi-ops-deadline-ms"
"""Header with the milliseconds that a client waits."""

UNKNOWN_STATE = "unknown state"
"""Reason of a 404 after which a client lists the timeline once more."""

COUNT_MAX = (1 << 31) - 1
"""Largest number of files of a partition."""

_END = struct.Struct("<IIIQ4s")
_MARK = b"HOPW"
_SCHEMA = bytes(ROWS.serialize())
_NO_MORE = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""End of an Arrow stream."""


class BadAnswer(Exception):
    """An answer that may not be used; says why."""


@dataclass(frozen=True)
class Part:
    """Encoded rows of one partition: a message of an Arrow stream, and its number of rows."""

    message: bytes
    rows: int

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Part:
        """Encode the rows of a partition."""
        return cls(bytes(rows.serialize()) if rows.num_rows else b"", rows.num_rows)


@dataclass(frozen=True)
class Head:
    """Description of an answer.

    Attributes:
        table_id: id of the table in its commit log.
        start: start of the timeline that was asked for.
        digest: state of the table that was asked for.
        is_newest: only files of the newest slices are here.
        has_rows: the answer has files; else only names of partitions and their numbers of files.
        partitions: sorted paths, each with its number of files.
        replaced: partition path, file id, and request time of the replace commit that hides the group.
        ahead: paths and numbers of the files ahead of pending resizes.
    """

    table_id: str
    start: str
    digest: str
    is_newest: bool
    has_rows: bool
    partitions: tuple[tuple[str, int], ...]
    replaced: tuple[tuple[str, str, str], ...] = ()
    ahead: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Answer:
    """A decoded answer.

    Attributes:
        files: one batch for each partition that has files.
        is_whole: the checksum matches.
    """

    head: Head
    files: tuple[pa.RecordBatch, ...]
    ahead: tuple[pa.RecordBatch, ...]
    is_whole: bool


def table_path(table: str) -> str:
    """Return the path of a table on a server."""
    return f"/v1/tables/{quote(table, safe='')}"


def state_path(table: str, table_id: str, start: str, digest: str, what: str) -> str:
    """Return the path of a state of a table; `what` is `files` or `partitions`."""
    return f"{table_path(table)}/{quote(table_id, safe='')}/{start}/{digest}/{what}"


def question(partitions: Sequence[str], *, is_newest: bool) -> bytes:
    """Return the body of a request for files; no partitions: all.

    Raises:
        UnicodeEncodeError: a path is no text.
    """
    return json.dumps({"partitions": list(partitions), "newest": is_newest}, ensure_ascii=False).encode()


def encode(head: Head, files: Iterable[Part], ahead: Iterable[Part] = ()) -> bytes:
    """Return an answer; the parts are in the order of the partitions of `head`."""
    streams = [_stream(files), _stream(ahead)]
    said = {
        "format": FORMAT,
        "table": head.table_id,
        "start": head.start,
        "digest": head.digest,
        "newest": head.is_newest,
        "rows": head.has_rows,
        "partitions": head.partitions,
        "replaced": head.replaced,
        "ahead": head.ahead,
    }
    text = json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()
    return sealed(streams[0], streams[1], text)


def sealed(files: bytes, ahead: bytes, text: bytes) -> bytes:
    """Return the sections of an answer with their end."""
    checksum = xxhash.xxh3_64()
    for section in (files, ahead, text):
        checksum.update(section)
    end = _END.pack(len(files), len(ahead), len(text), checksum.intdigest(), _MARK)
    return b"".join((files, ahead, text, end))


def sections(body: bytes) -> tuple[bytes, bytes, bytes, bool]:
    """Return the three sections of an answer, and whether the checksum matches.

    Raises:
        BadAnswer: it was cut, or has another form.
    """
    if len(body) < _END.size:
        raise BadAnswer("it was cut")
    *lengths, checksum, mark = _END.unpack(body[-_END.size :])
    if mark != _MARK or sum(lengths) + _END.size != len(body):
        raise BadAnswer("it was cut, or has another form")
    files, ahead, _ = lengths
    parts = body[:files], body[files : files + ahead], body[files + ahead : -_END.size]
    return *parts, xxhash.xxh3_64_intdigest(body[: -_END.size]) == checksum


def decode(body: bytes) -> Answer:
    """Return the content of an answer, which is not checked yet.

    Raises:
        BadAnswer: it was cut, or has another form.
    """
    files, ahead, text, is_whole = sections(body)
    try:
        said = json.loads(text)
        if said["format"] != FORMAT:
            raise BadAnswer(f"it has format {said['format']!r}, not {FORMAT}")
        head = _head(said)
        return Answer(head, _batches(files), _batches(ahead), is_whole)
    except BadAnswer:
        raise
    except Exception as error:  # altered bytes may raise any error
        why = f"its content is not that of an answer: {type(error).__name__}: {error}"
        raise BadAnswer(why if is_whole else "its checksum does not match: bytes were changed") from error


def _head(said: Mapping[str, Any]) -> Head:
    flags = [said[name] for name in ("newest", "rows")]
    partitions, ahead = (
        tuple((_text(path), _count(files)) for path, files in said[name]) for name in ("partitions", "ahead")
    )
    replaced = tuple((_text(path), _text(file_id), _text(by)) for path, file_id, by in said["replaced"])
    if not all(isinstance(flag, bool) for flag in flags):
        raise ValueError("a flag is not true or false")
    table_id, start, digest = (_text(said[name]) for name in ("table", "start", "digest"))
    return Head(table_id, start, digest, flags[0], flags[1], partitions, replaced, ahead)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    value.encode()  # JSON may hold half of a surrogate pair, which is no text of UTF-8
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= COUNT_MAX:
        raise ValueError(f"{value!r} counts no files")
    return value


def _stream(parts: Iterable[Part]) -> bytes:
    return b"".join((_SCHEMA, *(part.message for part in parts), _NO_MORE))


def _batches(section: bytes) -> tuple[pa.RecordBatch, ...]:
    with pa.ipc.open_stream(pa.py_buffer(section)) as stream:
        if stream.schema != ROWS:
            raise ValueError("it has other columns")
        found = tuple(stream)
    for batch in found:
        batch.validate(full=True)
    return found
