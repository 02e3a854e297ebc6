"""Parse and check requests of a timeline server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hudi_ops.server.limits import Limits
from hudi_ops.view.partitions import is_below_table

_INSTANT = re.compile(r"[0-9]{1,20}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_TABLE_ID = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
PATH_MAX_CHARS = 4096
"""Longest path of a partition."""


class Refused(Exception):
    """A request that is not answered with a view.

    It has the HTTP status, the reason, and the seconds after which it may be repeated.
    """

    def __init__(self, status: int, reason: str, retry_after_s: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.retry_after_s = status, reason, retry_after_s


@dataclass
class OpenAnswers:
    """Memory of the answers that are being made or sent; only the event loop uses it."""

    limit_bytes: int
    bytes: int = 0

    @contextmanager
    def taking(self, size_bytes: int) -> Iterator[None]:
        """Count the bytes of an answer inside the `with` block; one that is alone may have any size.

        Raises:
            Refused: 429, the others have too many.
        """
        if self.bytes and self.bytes + size_bytes > self.limit_bytes:
            raise Refused(429, "the answers that are being sent have too many bytes", 1)
        self.bytes += size_bytes
        try:
            yield
        finally:
            self.bytes -= size_bytes


@dataclass(frozen=True)
class Address:
    """State of a table, as the path of a request names it."""

    table_id: str
    start: str
    digest: str

    @property
    def about(self) -> tuple[str, str, str]:
        """Table id, start and digest."""
        return self.table_id, self.start, self.digest

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Address:
        """Return the address in the parameters of a path.

        Raises:
            Refused: 400, a part does not parse.
        """
        found = cls(str(params["table_id"]), str(params["start"]), str(params["digest"]))
        if not _TABLE_ID.fullmatch(found.table_id):
            raise Refused(400, "the table id does not parse")
        if not _INSTANT.fullmatch(found.start):
            raise Refused(400, "the start must be an instant")
        if not _DIGEST.fullmatch(found.digest):
            raise Refused(400, "the digest does not parse")
        return found


@dataclass(frozen=True)
class FilesQuestion:
    """What a request for files asks for; no partitions: all."""

    partitions: tuple[str, ...]
    is_newest: bool

    @classmethod
    def of(cls, body: bytes, limits: Limits) -> FilesQuestion:
        """Return the content of a body.

        Raises:
            Refused: 400, it does not parse or names a path outside of the table; 413, it names too many partitions.
        """
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            raise Refused(400, "the body is no JSON in UTF-8") from None
        if not isinstance(said, dict) or set(said) - {"partitions", "newest"}:
            raise Refused(400, "the body is no object of partitions and newest")
        paths, is_newest = said.get("partitions", []), said.get("newest", False)
        if not isinstance(paths, list) or not isinstance(is_newest, bool):
            raise Refused(400, "partitions is no list, or newest not true or false")
        if len(paths) > limits.batch:
            raise Refused(413, f"a request may name {limits.batch} partitions")
        for path in paths:
            _check_path(path)
        return cls(tuple(sorted(set(paths))), is_newest)


def _check_path(path: object) -> None:
    """Refuse what is no path of a partition below the table.

    Raises:
        Refused: 400.
    """
    if not isinstance(path, str) or len(path) > PATH_MAX_CHARS:
        raise Refused(400, "a partition is no text, or too long")
    if not is_below_table(path):
        raise Refused(400, "a partition lies outside of the table")
    if not path.isprintable() and any("\ud800" <= char <= "\udfff" for char in path):
        raise Refused(400, "a partition is no text of UTF-8")


def deadline_s(value: str | None, limits: Limits) -> float:
    """Return the seconds that a request waits: those of its header, bounded.

    Raises:
        Refused: 400, the header must be a number of milliseconds.
    """
    if value is None:
        return limits.deadline_s
    if not (value.isascii() and value.isdigit() and len(value) <= 9):
        raise Refused(400, "the deadline must be a number of milliseconds")
    return min(int(value) / 1000, limits.deadline_max_s)
