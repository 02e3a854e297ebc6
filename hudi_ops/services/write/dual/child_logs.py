"""Put the rows and deletes of a parent's log file into the children, as a task.

It reads the log file that the write put into the parent, so it is the same whether the resize was planned before that file was
written or after. A task runs on any engine, and each of its tries writes the same files.

Source: docs/protocol.md §29; docs/format.md §10.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.concurrency.markers import put_marker
from hudi_ops.config.columns import FILE_NAME
from hudi_ops.files.base.base_file import WriterSettings, conform
from hudi_ops.files.log.log_file import BlockKind, Deletes, HeaderKey, LogFileReader, encode_log_file
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.names import child_log_name, data_path
from hudi_ops.files.statistics.collect import statistics_of_log
from hudi_ops.files.statistics.statistics import FileStatistics, StatisticsRequest
from hudi_ops.formats.large_arrays import joined
from hudi_ops.index.bucket_engine import RingEngine
from hudi_ops.index.ring import Ring
from hudi_ops.kernels.meta_columns import with_file_name
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.content.commit_metadata import WriteStat


@dataclass(frozen=True, eq=False)
class ChildTask:
    """A parent's log file whose rows the children need; picklable.

    Attributes:
        path: the log file.
        instant: of the write.
        children: ring of the child groups; its instant is the resize's.
        versions: of the log file of each child, in the order of its nodes.
        number: tells the files of one write apart.
        rules: how record keys are read.
        stored: columns of the table's files.
    """

    storage: Storage
    path: str
    instant: str
    children: Ring
    versions: tuple[int, ...]
    number: int
    engine: RingEngine
    rules: MergeRules
    stored: pa.Schema
    wanted: StatisticsRequest
    log_format: Literal["parquet", "avro"]
    settings: WriterSettings

    @property
    def paths(self) -> list[str]:
        """Return the log files that it writes, of each child that gets rows."""
        return [self.path_of(node) for node in range(len(self.children.prefixes))]

    def path_of(self, node: int) -> str:
        """Return the log file of a child."""
        ring = self.children
        name = child_log_name(ring.file_id(node), ring.instant, self.versions[node], self.number, self.instant)
        return data_path(ring.partition_path, name)


@dataclass(frozen=True)
class ChildLog:
    """A log file of a child group: statistics for the commit, and for the metadata table."""

    stat: WriteStat
    facts: FileStatistics | None
    version: int


def write_child_logs(task: ChildTask) -> list[ChildLog]:
    """Write a log file for each child that gets rows or deletes, marker first.

    Raises:
        NotFound: the parent's log file is gone.
        Corrupt: it cannot be read.
    """
    reader = LogFileReader(task.storage, task.path)
    schema = next((block.headers[HeaderKey.SCHEMA] for block in reader.blocks if HeaderKey.SCHEMA in block.headers), "")
    parts = [conform(reader.rows(block), task.stored, task.path) for block in reader.blocks if block.is_data]
    rows = pa.concat_tables(parts) if parts else task.stored.empty_table()
    deletes = [each for block in reader.blocks if block.kind is BlockKind.DELETE for each in reader.deletes(block)]
    of_rows = _nodes(task, joined([task.rules.keys_of(rows)], pa.string()))
    of_deletes = [_nodes(task, each.keys) for each in deletes]
    found = []
    for node in range(len(task.children.prefixes)):
        mine = rows.filter(pa.array(of_rows == node)) if len(of_rows) else rows
        gone = [
            Deletes(each.keys.filter(mask), each.ordering.filter(mask) if each.ordering is not None else None)
            for each, nodes in zip(deletes, of_deletes, strict=True)
            if len((mask := pa.array(nodes == node)).filter(mask))
        ]
        if mine.num_rows or gone:
            found.append(_put(task, node, mine, gone, schema))
    return found


def _nodes(task: ChildTask, keys: pa.Array) -> npt.NDArray[np.int64]:
    return task.children.nodes_of(task.engine.hashes(keys)) if len(keys) else np.zeros(0, np.int64)


def _put(task: ChildTask, node: int, rows: pa.Table, deletes: list[Deletes], schema: str) -> ChildLog:
    ring, version = task.children, task.versions[node]
    file_id, path = ring.file_id(node), task.path_of(node)
    if FILE_NAME in rows.column_names:
        rows = with_file_name(rows, file_id)
    body = encode_log_file(
        rows if rows.num_rows else None,
        deletes,
        instant=task.instant,
        partition_path=ring.partition_path,
        avro_schema=schema,
        data_format=task.log_format,
        settings=task.settings,
    )
    put_marker(task.storage, task.instant, path, replaces=False)
    task.storage.put(path, body)
    given = rows if rows.num_rows else None
    facts = statistics_of_log(path, body, task.stored, task.wanted, given, [])
    removed = sum(len(each.keys) for each in deletes)
    stat = WriteStat(
        file_id=file_id,
        path=path,
        partition_path=ring.partition_path,
        prev_commit=ring.instant,
        base_file="",
        log_files=(path.rpartition("/")[2],),
        num_writes=rows.num_rows,
        num_update_writes=rows.num_rows,
        num_deletes=removed,
        total_write_bytes=body.size,
        file_size_in_bytes=body.size,
        other={"logVersion": version, "logOffset": 0},
    )
    return ChildLog(stat, facts, version)
