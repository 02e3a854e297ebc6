"""Tables with log files read equal to Apache Hudi: those that it writes itself, and records in every order, by hand.

Queries: snapshot, read-optimized, incremental between completion times, and as of instants. The `hudi` package is a third reader
where it reads the table. The full tier asks for every fifth instant and interval of each table, beginning with another one in the
next table, so that no kind of interval is left out; the soak asks for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.columns import IS_DELETED
from hudi_ops.formats.log.deletes import Deletes
from tests.interop.answers import LONG_AGO, READ_OPTIMIZED, instants, writes
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.conftest import HudiRsReader
from tests.interop.expected import some
from tests.interop.hand_written_logs import append_log

SCHEMA = pa.schema([
    ("id", pa.string()),
    ("part", pa.string()),
    ("ts", pa.int64()),
    ("value", pa.int64()),
    (IS_DELETED, pa.bool_()),
])
PAYLOADS = "org.apache.hudi.common.model"


@dataclass(frozen=True)
class Kind:
    """A kind of table that Apache Hudi writes."""

    name: str
    version: int = 9
    data_format: str = "avro"
    by_event: bool = True
    further: dict[str, str] = field(default_factory=dict)

    def options(self) -> dict[str, str]:
        """Write options: no compaction comes between, and small files are left alone."""
        return {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.write.table.version": str(self.version),
            "hoodie.write.auto.upgrade": "false",
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline": "false",
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.logfile.data.block.format": self.data_format,
            "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING" if self.by_event else "COMMIT_TIME_ORDERING",
            **self.further,
        }


KINDS = [
    Kind("events-in-avro"),
    Kind("events-in-parquet", data_format="parquet"),
    Kind("commits-in-avro", by_event=False),
    Kind("commits-in-parquet", data_format="parquet", by_event=False),
    Kind("version-8", version=8),
    Kind(
        "version-6",
        version=6,
        further={"hoodie.datasource.write.payload.class": f"{PAYLOADS}.DefaultHoodieRecordPayload"},
    ),
    Kind(
        "version-6-by-commit",
        version=6,
        by_event=False,
        further={"hoodie.datasource.write.payload.class": f"{PAYLOADS}.OverwriteWithLatestAvroPayload"},
    ),
]


def rows(numbers: Sequence[int], ts: int, value: int, deleted: bool | None = None) -> pa.Table:
    content = [
        {"id": f"k{number:02d}", "part": "xy"[number % 2], "ts": ts, "value": value, IS_DELETED: deleted}
        for number in numbers
    ]
    return pa.Table.from_pylist(content, schema=SCHEMA)


def write_all(kind: Kind, path: Path, peer: HudiPeer) -> None:
    """Updates, late rows, deletes with an ordering value and without, rows after deletes, new keys."""
    options = kind.options()
    peer.write(path, rows(range(30), 5, 0), mode="overwrite", options=options)
    for number, (operation, given) in enumerate([
        ("upsert", rows(range(0, 6), 6, 1)),
        ("upsert", pa.concat_tables([rows(range(4, 10), 3, 2), rows(range(30, 34), 3, 2)])),
        ("delete", rows([1, 11, 12, 31, 99], 9, 0)),
        ("upsert", pa.concat_tables([rows([2, 13], 7, 0, True), rows([14, 32], 1, 0, True)])),
        ("upsert", pa.concat_tables([rows([11], 4, 3), rows([12, 31], 8, 3), rows([13, 2], 6, 3)])),
        ("upsert", rows(range(0, 34, 3), 6, 4)),
    ]):
        peer.write(
            path, given, operation, options={**options, "hoodie.datasource.write.commitmeta.key.prefix": f"n{number}"}
        )


def check_all(path: Path, number: int, peer: HudiPeer, hudi_rs: HudiRsReader) -> None:
    table = Table.open(str(path))
    found = table.read(meta_columns=True)
    assert_same_rows(found, peer.read(path), with_meta=True)
    assert_same_rows(found, hudi_rs(path), with_meta=True)
    assert_same_rows(
        pa.Table.from_batches(table.scan(meta_columns=True).to_batches(), found.schema), found, with_meta=True
    )
    assert table.scan(meta_columns=True).count_rows() == found.num_rows
    assert_same_rows(
        table.read(query="read_optimized", meta_columns=True), peer.read(path, options=READ_OPTIMIZED), with_meta=True
    )
    for instant in some(instants(path), number):
        assert_same_rows(table.read(as_of=instant, meta_columns=True), peer.read(path, instant), with_meta=True)
    times = [LONG_AGO, *(one.completion_time for one in writes(path))]
    pairs = {
        *itertools.pairwise(times),
        *((LONG_AGO, one) for one in times[1:]),
        *((one, times[-1]) for one in times[1:-1]),
    }
    for begin, end in some(sorted(pairs), number):
        assert_same_rows(
            table.changes(begin, end, meta_columns=True).to_arrow(), peer.incremental(path, begin, end), with_meta=True
        )


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_apache_hudi_writes_reads_equal(
    kind: Kind, tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: HudiRsReader
) -> None:
    path = tmp_path / "t"
    write_all(kind, path, apache_hudi)
    table = Table.open(str(path))
    assert (table.config.merge_mode == "EVENT_TIME_ORDERING") == kind.by_event
    assert table.scan(meta_columns=True).explain().log_files_read > 4
    check_all(path, KINDS.index(kind), apache_hudi, hudi_rs)


Step = tuple[str, int | None]
"""`row`; `flagged`, a row that deletes; `delete`, a record of a delete block; and an ordering value."""

SEQUENCES: list[tuple[Step, ...]] = [
    (("row", 4),),
    (("row", 5),),
    (("delete", 5),),
    (("delete", 4),),
    (("flagged", 4),),
    (("flagged", 5),),
    (("delete", None), ("row", 3)),
    (("delete", None), ("row", -1)),
    (("delete", None), ("row", 6)),
    (("delete", 7), ("row", 6)),
    (("row", 9), ("row", 7)),
    (("row", 9), ("delete", 7), ("row", 8)),
    (("row", 9), ("delete", None), ("row", 6)),
    (("row", 4), ("delete", None), ("delete", 7)),
    (("delete", None), ("delete", 7), ("row", 6)),
    (("delete", None), ("delete", 7), ("row", -3)),
    (("delete", None), ("delete", 7), ("delete", 3)),
    (("delete", None), ("flagged", 7), ("row", 6)),
    (("delete", None), ("row", 4), ("delete", 7)),
    (("delete", None), ("delete", None), ("row", 6)),
    (("delete", 9), ("delete", None), ("row", 6)),
]
NULLS: list[tuple[Step, ...]] = [
    (("row", None),),
    (("row", 9), ("row", None)),
    (("row", None), ("row", 4)),
    (("delete", None), ("row", None)),
    (("row", None), ("delete", 3)),
]
"""Apache Hudi cannot read a log with such rows at all; the `hudi` package does."""

ORDERED = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("value", pa.int64()), (IS_DELETED, pa.bool_())])


def by_hand(path: Path, sequences: Sequence[tuple[Step, ...]], by_event: bool, data_format: Any) -> Table:
    """A table with a base row and without one for each sequence; each step of all sequences is written together, form by form."""
    table = Table.create(
        str(path),
        name="t",
        record_key=["id"],
        schema=ORDERED,
        table_type="mor",
        buckets=1,
        ordering="ts" if by_event else None,
        metadata=False,
    )
    known = [f"known{number:02d}" for number in range(len(sequences))]
    table.ingest(pa.Table.from_pylist([{"id": key, "ts": 5, "value": 0} for key in [*known, "other"]], schema=ORDERED))
    steps = dict(
        zip([*known, *(f"new{number:02d}" for number in range(len(sequences)))], [*sequences, *sequences], strict=True)
    )
    for number in range(max(map(len, sequences))):
        at = {key: sequence[number] for key, sequence in steps.items() if number < len(sequence)}
        for form in ("row", "flagged"):
            content = [
                {"id": key, "ts": ts, "value": number + 1, IS_DELETED: form == "flagged" or None}
                for key, (kind, ts) in at.items()
                if kind == form
            ]
            if content:
                append_log(table, pa.Table.from_pylist(content, schema=ORDERED), data_format=data_format)
        always = [key for key, (kind, ts) in at.items() if kind == "delete" and ts is None]
        ordered = [(key, ts) for key, (kind, ts) in at.items() if kind == "delete" and ts is not None]
        deletes = [Deletes(pa.array(always, pa.string()), None)] if always else []
        if ordered:
            keys, values = zip(*ordered, strict=True)
            deletes.append(Deletes(pa.array(keys, pa.string()), pa.array(values, pa.int64())))
        if deletes:
            append_log(table, None, deletes)
    return Table.open(str(path))


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize("data_format", ["parquet", "avro"])
@pytest.mark.parametrize("by_event", [True, False])
def test_records_in_every_order_read_equal(
    by_event: bool, data_format: str, tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: HudiRsReader
) -> None:
    table = by_hand(tmp_path / "t", SEQUENCES, by_event, data_format)
    check_all(tmp_path / "t", 2 * by_event + (data_format == "avro"), apache_hudi, hudi_rs)
    if not by_event:
        return
    shown = {row["id"]: (row["ts"], row["value"]) for row in table.read(meta_columns=True).to_pylist()}
    assert shown["known06"] == (5, 0), (
        "a row after an unconditional delete, older than the base row, brings that one back"
    )
    assert shown["known14"] == (6, 3), "a delete that finds its key deleted says nothing"
    assert "known17" not in shown, "a row that deletes is a row"


def test_null_ordering_values_lose(tmp_path: Path, hudi_rs: HudiRsReader) -> None:
    by_hand(tmp_path / "t", NULLS, True, "parquet")
    assert_same_rows(Table.open(str(tmp_path / "t")).read(meta_columns=True), hudi_rs(tmp_path / "t"), with_meta=True)
