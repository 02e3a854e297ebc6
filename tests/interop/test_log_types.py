"""Log files of ours with every column type, and deletes by every ordering type: all read the same, and Apache Hudi compacts them.

Where a delete block would not carry an ordering value to all readers alike, the delete is a row that is marked as deleted. Dates as
ordering values are left out: no upsert of Apache Hudi's works on them, in tables of its own either (docs/format §11.2).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.write_settings import LogFormat
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.our_rows import EPOCH, SCHEMAS, as_table, row

HudiRsReader = Callable[..., pa.Table]

TIMES = [("tick", pa.int32()), ("tock", pa.timestamp("ms", "UTC"))]
NESTED, FLAT = (pa.schema([*SCHEMAS[kind], *(pa.field(*one) for one in TIMES)]) for kind in ("memory", "csv"))
WITHOUT_METADATA = "hoodie.metadata.enable=false"
CASES: list[tuple[LogFormat, str | None, pa.Schema]] = [
    ("parquet", "seq", NESTED),
    ("avro", "at", FLAT),
    ("parquet", "level", NESTED),
    ("avro", "label", NESTED),
    ("parquet", "price", FLAT),
    ("avro", None, FLAT),
    ("parquet", "tick", FLAT),
    ("avro", "tock", FLAT),
]


def is_compacted(table: Table) -> bool:
    """Whether base files hold all there is."""
    return table.scan(meta_columns=True).explain().log_files_read == 0


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize(
    ("log_format", "ordering", "schema"), CASES, ids=[f"{one[0]} {one[1]} {len(one[2])} columns" for one in CASES]
)
def test_all_read_the_same(
    log_format: LogFormat,
    ordering: str | None,
    schema: pa.Schema,
    tmp_path: Path,
    apache_hudi: HudiPeer,
    hudi_rs: HudiRsReader,
) -> None:
    path = tmp_path / "t"
    table = Table.create(
        str(path), name="t", record_key=["id"], schema=schema, partition_by=["month"], ordering=ordering,
        table_type="mor", buckets=2, log_format=log_format, metadata=False)  # fmt: skip

    def written(numbers: range, version: int, time: int, deleted: bool | None = None) -> None:
        at = {"tick": time - 4, "tock": EPOCH + timedelta(minutes=time)}
        made = [row(number, version, time, deleted=deleted) | at for number in numbers]
        if ordering == "price":  # it follows from the number, which a row keeps
            made = [one | {"price": one["price"] + time} for one in made]
        table.ingest(as_table(made, schema))

    def check(count: int) -> None:
        ours = table.read(meta_columns=True)
        assert ours.num_rows == count
        if log_format == "avro" and schema is NESTED and any(path.rglob("*.log.*")) and not is_compacted(table):
            # Nor does it read those that Apache Hudi writes of such columns (docs/format §12).
            with pytest.raises(Exception, match="reconcile: column 'visits'"):
                hudi_rs(path)
        else:
            assert_same_rows(hudi_rs(path), ours, with_meta=True)
        assert_same_rows(apache_hudi.read(path), ours, with_meta=True)

    def compact_there() -> None:
        at_once = f"{WITHOUT_METADATA},hoodie.compact.inline.max.delta.commits=1"
        for what, options in (("schedule", at_once), ("run", WITHOUT_METADATA)):
            apache_hudi.sql(f"CALL run_compaction(op=>'{what}', path=>'{path}', options=>'{options}')")

    # Late deletes lose, but not those by the int 0, as the ones of `tick` are: unconditional for everybody (docs/format §11.3).
    is_late = ordering not in {None, "tick"}
    written(range(40), 0, 5)
    written(range(20), 1, 6)
    written(range(10, 14), 2, 4)  # late
    written(range(30, 34), 3, 4, deleted=True)  # late
    written(range(34, 40), 3, 6, deleted=True)
    check(34 if is_late else 30)
    compact_there()
    assert table.read(query="read_optimized", meta_columns=True).num_rows == (34 if is_late else 30)
    check(34 if is_late else 30)
    written(range(8), 4, 7)
    written(range(8, 10), 4, 7, deleted=True)
    check(32 if is_late else 28)
    assert table.compaction.run().instant is not None
    assert table.read(query="read_optimized", meta_columns=True).num_rows == (32 if is_late else 28)
    check(32 if is_late else 28)
