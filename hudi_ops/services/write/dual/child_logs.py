"""Put the rows and deletes of a parent into log files of its children, as a task.

Where a resize was pending before a write put its rows into the parent, the same task puts them into the children. For a resize that
was planned later, a task of its own reads the parent's log file again. Both put equal rows into files of equal names, in each try.

Source: docs/protocol §29; docs/format §10.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_ops.concurrency.markers import put_marker
from hudi_ops.config.columns import FILE_NAME
from hudi_ops.files.base.base_file import WriterSettings, conform
from hudi_ops.files.log.log_file import (
    BlockKind,
    Deletes,
    HeaderKey,
    LogFileReader,
    dictionaries_of,
    encode_log_file,
)
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
class ChildrenTask:
    """Children of a parent in a pending resize, and how a write puts rows into them.

    Attributes:
        instant: of the write.
        children: ring of the child groups; its instant is the resize's.
        versions: of the log file of each child, in the order of its nodes.
        number: tells the files of one write apart.
        rules: how record keys are read.
        stored: columns of the table's files.
    """

    storage: Storage
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
        """Return the log file of each child, also of those that get no rows."""
        return [self.path_of(node) for node in range(len(self.children.prefixes))]

    def path_of(self, node: int) -> str:
        """Return the log file of a child."""
        ring = self.children
        name = child_log_name(ring.file_id(node), ring.instant, self.versions[node], self.number, self.instant)
        return data_path(ring.partition_path, name)

    def nodes_of(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """Return the child of each record key."""
        return self.children.nodes_of(self.engine.hashes(keys)) if len(keys) else np.zeros(0, np.int64)


@dataclass(frozen=True)
class ChildLog:
    """A log file of a child group: statistics for the commit, and for the metadata table."""

    stat: WriteStat
    facts: FileStatistics | None
    resize: str
    version: int


def copy_into_children(given: tuple[ChildrenTask, str]) -> list[ChildLog]:
    """Put what a log file of a parent holds into the children, as `write_children` does.

    Raises:
        NotFound: the parent's log file is gone.
        Corrupt: it cannot be read.
    """
    task, path = given
    reader = LogFileReader(task.storage, path)
    schema = next((block.headers[HeaderKey.SCHEMA] for block in reader.blocks if HeaderKey.SCHEMA in block.headers), "")
    parts = [conform(reader.rows(block), task.stored, path) for block in reader.blocks if block.is_data]
    rows = pa.concat_tables(parts) if parts else task.stored.empty_table()
    deletes = [each for block in reader.blocks if block.kind is BlockKind.DELETE for each in reader.deletes(block)]
    return write_children(task, rows, joined([task.rules.keys_of(rows)], pa.string()), deletes, schema)


def write_children(
    task: ChildrenTask,
    rows: pa.Table,
    keys: pa.Array,
    deletes: Sequence[Deletes],
    schema: str,
    dictionaries: Sequence[str] | None = None,
) -> list[ChildLog]:
    """Write a log file for each child that gets rows or deletes, marker first.

    Args:
        task: the children.
        rows: as they are stored in the parent, with their record `keys`.
        keys: of the rows.
        deletes: as they are stored in the parent.
        schema: Avro schema of the rows.
        dictionaries: columns of the rows that get a dictionary; None: a sample decides.
    """
    if dictionaries is None:
        dictionaries = dictionaries_of(rows, task.settings)
    of_rows, of_deletes = task.nodes_of(keys), [task.nodes_of(each.keys) for each in deletes]
    found = []
    for node in range(len(task.children.prefixes)):
        is_mine = of_rows == node
        mine = rows if is_mine.all() else rows.filter(pa.array(is_mine))
        gone = [
            Deletes(each.keys.filter(mask), each.ordering.filter(mask) if each.ordering is not None else None)
            for each, nodes in zip(deletes, of_deletes, strict=True)
            for mask in [pa.array(nodes == node)]
            if (nodes == node).any()
        ]
        if mine.num_rows or gone:
            found.append(_put(task, node, mine, gone, schema, dictionaries))
    return found


def _put(
    task: ChildrenTask, node: int, rows: pa.Table, deletes: list[Deletes], schema: str, dictionaries: Sequence[str]
) -> ChildLog:
    ring, version = task.children, task.versions[node]
    file_id, path = ring.file_id(node), task.path_of(node)
    if FILE_NAME in rows.column_names:
        rows = with_file_name(rows, file_id)
    given = rows if rows.num_rows else None
    body = encode_log_file(
        given,
        deletes,
        instant=task.instant,
        partition_path=ring.partition_path,
        avro_schema=schema,
        data_format=task.log_format,
        settings=task.settings,
        dictionaries=dictionaries,
    )
    put_marker(task.storage, task.instant, path, replaces=False)
    task.storage.put(path, body)
    stat = WriteStat(
        file_id=file_id,
        path=path,
        partition_path=ring.partition_path,
        prev_commit=ring.instant,
        base_file="",
        log_files=(path.rpartition("/")[2],),
        num_writes=rows.num_rows,
        num_update_writes=rows.num_rows,
        num_deletes=sum(len(each.keys) for each in deletes),
        total_write_bytes=body.size,
        file_size_in_bytes=body.size,
        other={"logVersion": version, "logOffset": 0},
    )
    return ChildLog(stat, statistics_of_log(path, body, task.stored, task.wanted, given, []), ring.instant, version)
