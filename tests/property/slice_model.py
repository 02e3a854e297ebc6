"""A slice by hand, as bytes and as a dict: what its base file and log files hold, and what readers must make of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.config.columns import COMMIT_TIME, IS_DELETED, META_COLUMNS, RECORD_KEY
from hudi_ops.files.base.base_file import WriterSettings, stored_avro_schema, with_meta
from hudi_ops.files.log.log_file import encode_log_file
from hudi_ops.files.log.merge_rules import OPERATION, MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.names import log_file_name
from hudi_ops.files.slice.slice_scan import SliceTask
from hudi_ops.formats.log.deletes import Deletes
from hudi_ops.kernels.condition import Condition
from hudi_ops.kernels.merging.merge import Ordering
from hudi_ops.storage.memory import MemoryStorage

Kind = Literal["row", "flagged", "operation", "marked", "delete", "always"]
"""A row; a row that deletes by one of three columns; a record of a delete block, with an ordering value and without."""

DELETING: tuple[Kind, ...] = ("flagged", "operation", "marked", "delete", "always")
IN_DATA_BLOCK: tuple[Kind, ...] = ("row", "flagged", "operation", "marked")

SCHEMA = pa.schema([
    ("id", pa.string()),
    ("ts", pa.int64()),
    ("value", pa.int64()),
    (IS_DELETED, pa.bool_()),
    (OPERATION, pa.string()),
    ("op", pa.string()),
])
STORED = with_meta(SCHEMA)
COLUMNS = (COMMIT_TIME, "id", "ts", "value")
NAME, BASE = "t", "p/a-0_0-0-0_{}.parquet"


@dataclass(frozen=True)
class Record:
    """One record of a log block, or a row of the base file."""

    key: str
    ts: int | None
    value: int
    kind: Kind = "row"


@dataclass(frozen=True)
class Block:
    """What one writer appended: data rows first, then deletes, in one log file of its own or behind another block."""

    instant: str
    records: tuple[Record, ...]
    data_format: Literal["parquet", "avro"] = "parquet"
    shares_file: bool = False


@dataclass(frozen=True)
class ModelSlice:
    """Base rows by the instant that wrote them, or None without a base file; and blocks in the order in which they are read."""

    base: tuple[tuple[str, Record], ...] | None
    blocks: tuple[Block, ...]
    by_event: bool = True
    row_group_rows: int = 2

    def rows(self, only: frozenset[str] | None = None) -> dict[str, tuple[str, str, int | None, int]]:
        """What the slice shows: key -> commit time, id, ts, value. By the rules of docs/format §11."""
        left: dict[str, tuple[str, Record]] = {}
        for block in self.blocks:
            if only is None or block.instant in only:
                for record in block.records:
                    held = left.get(record.key)
                    if held is None or self._replaces(record, held[1]):
                        left[record.key] = block.instant, record
        found = {record.key: (time, record) for time, record in self.base or () if only is None or time in only}
        for key, (time, record) in left.items():
            held = found.get(key)
            if held is not None and not self._replaces(record, held[1]):
                continue
            if record.kind in DELETING:
                found.pop(key, None)
            else:
                found[key] = time, record
        return {key: (time, key, one.ts, one.value) for key, (time, one) in found.items()}

    def _replaces(self, record: Record, held: Record) -> bool:
        if not self.by_event or record.kind == "always":
            return True
        if held.kind == "always":
            return record.kind != "delete"  # which finds nothing to delete
        return held.ts is None or (record.ts is not None and record.ts >= held.ts)

    def task(
        self,
        storage: MemoryStorage,
        condition: Condition | None = None,
        keys: Sequence[str] | None = None,
        only: frozenset[str] | None = None,
    ) -> SliceTask:
        """Write the files, and the task that reads them."""
        logs = self._write_logs(storage)
        base_path, base_bytes = None, 0
        if self.base is not None:
            base_path = BASE.format("0")
            body = self._base_bytes()
            base_bytes = len(body)
            storage.put(base_path, body)
        needed = {*COLUMNS, *(condition.columns if condition is not None else ())}
        return SliceTask(
            storage=storage,
            base=base_path,
            base_bytes=base_bytes,
            logs=logs,
            rules=rules(self.by_event),
            instants=BlockInstants(latest="9", only=only),
            schema=pa.schema([field for field in STORED if field.name in needed]),
            columns=COLUMNS,
            condition=condition,
            keys=tuple(keys) if keys is not None else None,
        )

    def _base_bytes(self) -> pa.Buffer:
        rows = table_of([(time, record) for time, record in self.base or ()])
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, row_group_size=self.row_group_rows, store_schema=False)
        return sink.getvalue()

    def _write_logs(self, storage: MemoryStorage) -> tuple[tuple[str, int], ...]:
        bodies: list[bytes] = []
        for block in self.blocks:
            body = block_bytes(block)
            if block.shares_file and bodies:
                bodies[-1] += body
            else:
                bodies.append(body)
        found = []
        for number, body in enumerate(bodies):
            path = f"p/{log_file_name('a-0', str(number), 1, '0-0-0')}"
            storage.put(path, body)
            found.append((path, len(body)))
        return tuple(found)


def rules(by_event: bool) -> MergeRules:
    """Those of the model's table: every way to delete a row is known."""
    return MergeRules(
        table=NAME,
        mode=Ordering.EVENT_TIME if by_event else Ordering.COMMIT_TIME,
        ordering=SCHEMA.field("ts") if by_event else None,
        keys=None,
        key_columns=pa.schema([STORED.field(RECORD_KEY)]),
        flags=pa.schema([SCHEMA.field(name) for name in (IS_DELETED, OPERATION, "op")]),
        marker=("op", "gone"),
    )


def in_reading_order(records: Sequence[Record]) -> tuple[Record, ...]:
    """As a block's file holds them: rows, then deletes with ordering values, then those without."""
    place: Callable[[Record], int] = lambda one: 0 if one.kind in IN_DATA_BLOCK else 1 if one.kind == "delete" else 2  # noqa: E731
    return tuple(sorted(records, key=place))


def block_bytes(block: Block) -> bytes:
    """One data block, and delete blocks."""
    rows = [(block.instant, one) for one in block.records if one.kind in IN_DATA_BLOCK]
    ordered = [one for one in block.records if one.kind == "delete"]
    always = [one for one in block.records if one.kind == "always"]
    deletes = []
    if ordered:
        keys = pa.array([one.key for one in ordered], pa.string())
        deletes.append(Deletes(keys, pa.array([one.ts for one in ordered], pa.int64())))
    if always:
        deletes.append(Deletes(pa.array([one.key for one in always], pa.string()), None))
    body = encode_log_file(
        table_of(rows) if rows else None,
        deletes,
        instant=block.instant,
        partition_path="p",
        avro_schema=stored_avro_schema(SCHEMA, NAME, True),
        data_format=block.data_format,
        settings=WriterSettings(),
    )
    return bytes(body)


def table_of(rows: Sequence[tuple[str, Record]]) -> pa.Table:
    """Rows with meta columns."""
    plain: list[dict[str, Any]] = [
        {
            **dict.fromkeys(META_COLUMNS, ""),
            COMMIT_TIME: time,
            RECORD_KEY: one.key,
            "id": one.key,
            "ts": one.ts,
            "value": one.value,
            IS_DELETED: True if one.kind == "flagged" else None,
            OPERATION: "D" if one.kind == "operation" else "U",
            "op": "gone" if one.kind == "marked" else None,
        }
        for time, one in rows
    ]
    return pa.Table.from_pylist(plain, schema=STORED)
