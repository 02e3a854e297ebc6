"""Delta of one instant in the metadata table, as bytes that any process can put.

It is made before the lock, and put once its slot is won. The name and the bytes of every file follow from the bundle, and the
bundle from the slot: every process that applies it, however often, puts the same files. Source: docs/protocol §18.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudi_ops.errors import Corrupt
from hudi_ops.files.names import log_file_name
from hudi_ops.formats.log.hfile_blocks import encode_metadata_log
from hudi_ops.metadata.records.partitions import FOLDER, MetadataPartition, group_id
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.records.schema import commit_schema
from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat

OPERATION = "UPSERT_PREPPED"
"""Operation of each delta commit of a metadata table, except those that begin a partition."""

_COLUMNS = pa.schema([pa.field("path", pa.string()), pa.field("body", pa.large_binary())])
_COMMIT = "commit"
_ABOVE = "above"


@dataclass(frozen=True)
class MetadataDelta:
    """Log files of the metadata table by path, and its delta commit.

    Paths are below the data table's root. `above` is one more delta commit, of an instant of its own that is later than all others:
    loose records of `partition_stats` once more, if a record above this instant replaces older ones (docs/format §14.4).
    """

    instant: str
    files: tuple[tuple[str, bytes], ...]
    commit: bytes
    above: MetadataDelta | None = None

    def to_bytes(self) -> bytes:
        """Encode one Arrow file: a row per log file, the delta commit, perhaps one above it."""
        rows = [*self.files, (_COMMIT, self.commit)]
        if self.above is not None:
            rows.append((_ABOVE, self.above.to_bytes()))
        columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(_COLUMNS)]
        schema = _COLUMNS.with_metadata({"instant": self.instant})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(pa.record_batch(columns, schema=schema))
        body: bytes = sink.getvalue().to_pybytes()
        return body

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> MetadataDelta:
        """Decode a bundle.

        Raises:
            Corrupt: it is not a bundle.
        """
        try:
            instant, paths, bodies = _read(data)
        except (pa.ArrowException, OSError, KeyError, TypeError, UnicodeDecodeError, MemoryError) as error:
            raise Corrupt(
                f"{path} is not a bundle for the metadata table: {error}",
                expected="an Arrow file with the columns path and body",
                next_step="run `hudi-ops verify`; restore the file from a copy of the table",
            ) from error
        above = None
        if paths[-1] == _ABOVE:
            above = cls.from_bytes(bodies[-1], path)
            paths, bodies = paths[:-1], bodies[:-1]
        return cls(instant, tuple(zip(paths[:-1], bodies[:-1], strict=True)), bodies[-1], above)


def _read(data: bytes) -> tuple[str, list[str], list[bytes]]:
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    table.validate(full=True)  # Arrow does not check offsets and lengths
    if table.schema.types != _COLUMNS.types or not table.num_rows or any(column.null_count for column in table.columns):
        raise pa.ArrowInvalid("other columns, no rows, or nulls")
    paths, bodies = (table.column(field.name).to_pylist() for field in _COLUMNS)
    return table.schema.metadata[b"instant"].decode(), paths, bodies


def make_delta(
    records: Sequence[Records],
    groups: Mapping[str, int] | Mapping[MetadataPartition, int],
    *,
    instant: str,
    version: int,
    token: str,
) -> MetadataDelta:
    """Return the delta of one instant."""
    files, stats = [], []
    counts: dict[str, int] = dict(groups.items())
    for part in records:
        for path, body, stat in log_files(part, counts[part.partition], instant=instant, log_version=1, token=token):
            files.append((path, body))
            stats.append(stat)
    commit = CommitMetadata(operation=OPERATION, stats=tuple(stats), extra={"schema": commit_schema(version)})
    return MetadataDelta(instant, tuple(files), commit.to_bytes())


def log_files(
    records: Records, groups: int, *, instant: str, log_version: int, token: str
) -> list[tuple[str, bytes, WriteStat]]:
    """Return path, bytes and write statistics of the log files that add records."""
    found = []
    for number, part in records.by_group(groups).items():
        name = log_file_name(group_id(records.partition, number), instant, log_version, token)
        body = encode_metadata_log(part.keys, part.values, part.deletes, instant, part.schema, str(records.partition))
        stat = _stat(records.partition, number, name, part, len(body), instant, log_version)
        found.append((f"{FOLDER}/{records.partition}/{name}", body, stat))
    return found


def _stat(
    partition: str, number: int, name: str, part: Records, size_bytes: int, instant: str, log_version: int
) -> WriteStat:
    return WriteStat(
        file_id=group_id(partition, number),
        path=f"{partition}/{name}",
        partition_path=str(partition),
        prev_commit=instant,
        base_file="",
        log_files=(name,),
        num_writes=len(part.keys),
        num_update_writes=len(part.keys),
        num_deletes=len(part.deletes),
        total_write_bytes=size_bytes,
        file_size_in_bytes=size_bytes,
        other={"logVersion": log_version, "logOffset": 0},
    )
