"""Metadata of a completed commit: write statistics, replaced file groups, extra metadata.

Source: docs/format §2.4, §3.1, §4.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, overload

from hudi_ops.errors import Corrupt
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.json_text import load_json
from hudi_ops.formats.timeline.timeline_schemas import COMMIT_METADATA, REPLACE_COMMIT_METADATA

WHOLE_BYTES = 64 << 10
"""Statistics in commits of more bytes are decoded on first use."""

_STATS = "partitionToWriteStats"
_OTHERS = frozenset({"compacted", "extraMetadata", "operationType", "partitionToReplaceFileIds", "version"})
_RECORDS = ("HoodieCommitMetadata", "HoodieReplaceCommitMetadata")
_WITHOUT_STATS = tuple((record, _OTHERS) for record in _RECORDS)

RING_CHILDREN_KEY = "hudi_ops.ring_children"
"""Entry of a resize's extra metadata: by partition path, the nodes that it changed, each as [value, prefix or null]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStat:
    """Data file that a commit wrote; names are those of the format, in snake case.

    Sizes are in bytes. This library sets every number: Apache Hudi's incremental queries skip a file without its size
    (docs/format §3.1).
    """

    file_id: str
    path: str
    partition_path: str
    prev_commit: str = "null"
    num_writes: int = 0
    num_deletes: int = 0
    num_update_writes: int = 0
    num_inserts: int = 0
    total_write_bytes: int = 0
    total_write_errors: int = 0
    file_size_in_bytes: int = 0
    prev_base_file: str | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    min_event_time: int | None = None
    max_event_time: int | None = None
    other: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """Last segment of `path`."""
        return self.path.rpartition("/")[2]


_SNAKE_TO_FORMAT = {
    f.name: "".join(part.capitalize() if i else part for i, part in enumerate(f.name.split("_")))
    for f in fields(WriteStat)
    if f.name != "other"
}
_FORMAT_TO_SNAKE = {value: key for key, value in _SNAKE_TO_FORMAT.items()}
_COUNTED = ("num_writes", "num_inserts", "num_update_writes", "num_deletes", "total_write_bytes")
_NUMBERS_ALONE = (
    *((record, frozenset({_STATS})) for record in _RECORDS),
    ("HoodieWriteStat", frozenset({"path", *(_SNAKE_TO_FORMAT[name] for name in _COUNTED)})),
)
_PATHS_ALONE = (*_NUMBERS_ALONE[:-1], ("HoodieWriteStat", frozenset({"path"})))
_NUMBERS = [f.name for f in fields(WriteStat) if str(f.type).startswith("int")]
_TEXTS = [f.name for f in fields(WriteStat) if str(f.type).startswith("str")]
# As Apache Hudi writes them: statistics that do not apply to a base file written at once are zero, not null.
_ZEROS = (
    "totalLogRecords",
    "totalLogFiles",
    "totalUpdatedRecordsCompacted",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
    "totalLogFilesCompacted",
    "totalLogReadTimeMs",
    "totalLogSizeCompacted",
)


@dataclass(frozen=True)
class Numbers:
    """Paths of the files that a commit wrote, and numbers of each, by the name of the field."""

    paths: tuple[str, ...]
    values: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, stats: Sequence[WriteStat]) -> Numbers:
        """Return the numbers of decoded statistics."""
        return cls(
            tuple(stat.path for stat in stats), {name: [getattr(stat, name) for stat in stats] for name in _COUNTED}
        )

    def total(self, name: str) -> int:
        """Return the sum of a number."""
        return sum(self.values[name])


class StoredStats(Sequence[WriteStat]):
    """Statistics in the bytes of a commit, decoded on first use.

    Raises `Corrupt` on first use if they have fields of the wrong kind.
    """

    def __init__(self, data: bytes, path: str) -> None:
        self._stored: tuple[bytes, str] | None = data, path
        self._stats: tuple[WriteStat, ...] = ()

    @cached_property
    def numbers(self) -> Numbers:
        """Paths and numbers of the statistics; the rest of them is not decoded for these."""
        stored = self._stored
        if stored is None:
            return Numbers.of(self._stats)
        written = (avro.read_one(*stored, only=_NUMBERS_ALONE).get(_STATS) or {}).values()
        stats = [stat for held in written for stat in held]
        return Numbers(
            tuple(stat.get("path") or "" for stat in stats),
            {name: [stat.get(_SNAKE_TO_FORMAT[name]) or 0 for stat in stats] for name in _COUNTED},
        )

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Paths of the statistics' files; the rest of them is not decoded for these."""
        stored = self._stored
        if stored is None:
            return tuple(stat.path for stat in self._stats)
        if "numbers" in vars(self):
            return self.numbers.paths
        written = (avro.read_one(*stored, only=_PATHS_ALONE).get(_STATS) or {}).values()
        return tuple(stat.get("path") or "" for held in written for stat in held)

    @property
    def _held(self) -> tuple[WriteStat, ...]:
        stored = self._stored
        if stored is not None:
            self._stats = _stats_of(avro.read_one(*stored), stored[1])
            self._stored = None
        return self._stats

    @overload
    def __getitem__(self, at: int) -> WriteStat: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[WriteStat, ...]: ...

    def __getitem__(self, at: int | slice) -> WriteStat | tuple[WriteStat, ...]:
        return self._held[at]

    def __iter__(self) -> Iterator[WriteStat]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __eq__(self, other: object) -> bool:
        return self._held == (other._held if isinstance(other, StoredStats) else other)

    def __hash__(self) -> int:
        return hash(self._held)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """Content of a completed commit, delta commit or replace commit.

    `replaced` maps partition paths to the file ids that a replace commit hides; None in other actions. `extra` holds the schema,
    the pointer into the commit log and other entries of writers.
    """

    operation: str
    stats: Sequence[WriteStat] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, tuple[str, ...]] | None = None
    compacted: bool = False

    @property
    def paths(self) -> Sequence[str]:
        """Paths of the files that the statistics name."""
        return self.stats.paths if isinstance(self.stats, StoredStats) else [stat.path for stat in self.stats]

    @property
    def is_merge(self) -> bool:
        """Whether the commit merged files within their groups, and so changed no rows."""
        return self.compacted or self.operation in {"COMPACT", "LOG_COMPACT"}

    @property
    def numbers(self) -> Numbers:
        """Return paths and numbers of the statistics.

        Raises:
            Corrupt: the statistics are damaged.
        """
        return self.stats.numbers if isinstance(self.stats, StoredStats) else Numbers.of(self.stats)

    @property
    def replaced_groups(self) -> frozenset[tuple[str, str]]:
        """Return (partition path, file id) of the groups that it hides."""
        return frozenset((partition, file_id) for partition, ids in (self.replaced or {}).items() for file_id in ids)

    @property
    def made_groups(self) -> frozenset[tuple[str, str]] | None:
        """Return (partition path, file id) of the groups that a resize of ours made, or None.

        Raises:
            Corrupt: the entry with the groups is damaged.
        """
        text = self.extra.get(RING_CHILDREN_KEY)
        if text is None:
            return None
        try:
            nodes = json.loads(text)
            return frozenset((path, f"{prefix}-0") for path in nodes for _, prefix in nodes[path] if prefix is not None)
        except (ValueError, TypeError) as error:
            raise Corrupt(
                f"{RING_CHILDREN_KEY} of a resize cannot be read: {error}",
                expected="a JSON object of partition paths and nodes",
                found=text[:100],
                next_step="restore the completed file from a copy of the table",
            ) from None

    def to_bytes(self) -> bytes:
        """Encode an Avro container, the form of layout 2; equal values give equal bytes."""
        partitions: dict[str, list[dict[str, Any]]] = {}
        for stat in sorted(self.stats, key=lambda s: (s.partition_path, s.path)):
            partitions.setdefault(stat.partition_path, []).append(_stat_record(stat))
        record: dict[str, Any] = {
            "partitionToWriteStats": partitions,
            "compacted": self.compacted,
            "extraMetadata": dict(sorted(self.extra.items())),
            "version": None,
            "operationType": self.operation,
        }
        if self.replaced is None:
            return avro.write_one(COMMIT_METADATA, record)
        record["partitionToReplaceFileIds"] = {key: list(ids) for key, ids in sorted(self.replaced.items())}
        return avro.write_one(REPLACE_COMMIT_METADATA, record)

    @classmethod
    def from_bytes(cls, data: bytes, path: str = "", *, is_whole: bool = False) -> CommitMetadata:
        """Read a completed commit: Avro in layout 2, JSON in layout 1, or an empty file.

        The statistics of a large one are decoded when they are used, as most callers need the other entries; with `is_whole` now.

        Raises:
            Corrupt: the bytes have none of these forms, or fields of the wrong kind.
        """
        if not data:
            return cls(operation="UNKNOWN")
        is_json, is_large = data[:1] in b"{ \n", len(data) > WHOLE_BYTES and not is_whole
        only = _WITHOUT_STATS if is_large else ()
        record = _json_record(data, path) if is_json else avro.read_one(data, path, only=only)
        stats = StoredStats(data, path) if is_large and not is_json else _stats_of(record, path)
        try:
            replaced = record.get("partitionToReplaceFileIds")
            extra = {key: value for key, value in (record.get("extraMetadata") or {}).items() if value is not None}
            _refuse_other_than_text(extra.values(), *(replaced or {}).values())
            return cls(
                operation=str(record.get("operationType") or "UNKNOWN").upper(),
                stats=stats,
                extra=extra,
                replaced=None if replaced is None else {key: tuple(ids) for key, ids in replaced.items()},
                compacted=bool(record.get("compacted")),
            )
        except (AttributeError, TypeError, KeyError) as error:
            raise Corrupt(_unexpected(path, error)) from error


def _stats_of(record: Mapping[str, Any], path: str) -> tuple[WriteStat, ...]:
    """Return the statistics of a decoded commit.

    Raises:
        Corrupt: fields of the wrong kind.
    """
    try:
        return tuple(
            _stat_of(stat, partition) for partition, written in (record.get(_STATS) or {}).items() for stat in written
        )
    except (AttributeError, TypeError, KeyError) as error:
        raise Corrupt(_unexpected(path, error)) from error


def _unexpected(path: str, error: Exception) -> str:
    return f"{path or 'commit metadata'} has fields of an unexpected kind: {error}"


def _json_record(data: bytes, path: str) -> dict[str, Any]:
    record = load_json(data, path or "commit metadata", "JSON (layout 1)")
    if not isinstance(record, dict):
        raise Corrupt(f"{path or 'commit metadata'} is not a JSON object", expected="an object")
    return record


def _stat_record(stat: WriteStat) -> dict[str, Any]:
    record: dict[str, Any] = dict.fromkeys(_ZEROS, 0)
    record.update({name: getattr(stat, key) for key, name in _SNAKE_TO_FORMAT.items()})
    record["logFiles"] = list(stat.log_files) if stat.log_files is not None else None
    record.update(stat.other)
    return record


def _are(values: Mapping[str, Any], names: Iterable[str], kind: type) -> bool:
    return all(isinstance(values[name], kind) for name in names if name in values)


def _refuse_other_than_text(*groups: Iterable[Any]) -> None:
    if not all(_all(values, str) for values in groups):
        raise TypeError("extra metadata or replaced file ids that are not texts")


def _all(values: Iterable[Any], kind: type) -> bool:
    return all(isinstance(value, kind) for value in values)


def _stat_of(record: Mapping[str, Any], partition: str) -> WriteStat:
    known = {snake: record[key] for key, snake in _FORMAT_TO_SNAKE.items() if record.get(key) is not None}
    known["file_id"] = record.get("fileId") or ""
    known["path"] = record.get("path") or ""
    known.setdefault("partition_path", partition)
    if "log_files" in known:
        known["log_files"] = tuple(known["log_files"])
    if not (_are(known, _NUMBERS, int) and _are(known, _TEXTS, str) and _all(known.get("log_files") or (), str)):
        raise TypeError(f"statistics of {known['path']!r} with texts for numbers, or numbers for texts")
    known["other"] = {key: value for key, value in record.items() if key not in _FORMAT_TO_SNAKE and value is not None}
    return WriteStat(**known)
