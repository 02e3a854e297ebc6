"""Rows that Apache Hudi's MERGE INTO updates in part: our compaction plans no file group that holds some."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.errors import Unsupported
from hudi_ops.services.base.choice import Reason
from hudi_ops.services.compaction.choose import LeftReason
from hudi_ops.timeline.active import load_timeline
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer, bucket_options
from tests.interop.compare import assert_same_rows

SCHEMA = pa.schema([
    ("id", pa.string()),
    ("ts", pa.int64()),
    ("a", pa.string()),
    ("b", pa.string()),
    ("part", pa.string()),
])
NOW = "hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1"
CONF = {"hoodie.metadata.enable": "false", **bucket_options(1, "id")}
PARTIAL = """MERGE INTO merged_in_part AS t USING (SELECT 'k0' AS id, 200L AS ts, 'A' AS a, 'p0' AS part) AS s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET t.a = s.a, t.ts = s.ts"""


def rows(*numbers: int, ts: int) -> pa.Table:
    """Rows of the partitions `p0` (even numbers) and `p1` (odd ones)."""
    made = [{"id": f"k{n}", "ts": ts, "a": f"a{ts}", "b": f"b{ts}", "part": f"p{n % 2}"} for n in numbers]
    return pa.Table.from_pylist(made, SCHEMA)


def pending(table: Table) -> list[str]:
    """What is pending on the timeline."""
    session = table._session
    return [str(one) for one in load_timeline(session.ctx.storage, session.loader.load().config).pending]


def test_compact_plans_no_file_group_whose_rows_are_in_part(tmp_path: Path, apache_hudi: HudiPeer) -> None:
    path = tmp_path / "t"
    table = Table.create(
        str(path), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"], ordering="ts",
        table_type="mor", buckets=1, metadata=False)  # fmt: skip
    table.ingest(rows(*range(8), ts=100))
    table.ingest(rows(1, 3, ts=110))
    apache_hudi.sql(PARTIAL, tables={"merged_in_part": path}, conf=CONF)

    told = table.compaction.explain()
    assert (told.counts[Reason.PLANNED], told.counts[LeftReason.UNMERGEABLE]) == (1, 1)
    done = table.compaction.run()
    assert done.instant is not None
    assert pending(table) == []
    assert_same_rows(
        apache_hudi.read(path, where="part = 'p1'"), table.read(where="part = 'p1'", meta_columns=True), with_meta=True
    )

    # Nothing but that file group has log files now: the call says so, and leaves no plan.
    with pytest.raises(Unsupported, match="cannot be merged here") as refused:
        table.compaction.run()
    assert "IS_PARTIAL" in refused.value.found
    with pytest.raises(Unsupported, match="cannot be merged here"):
        table.compaction.plan()
    assert pending(table) == []
    assert table.compaction.explain().counts[LeftReason.UNMERGEABLE] == 1

    # Apache Hudi plans once a delta commit came since the last compaction, and looks where our plan left log files, too.
    table.ingest(rows(1, ts=120))
    for what in ("schedule", "run"):
        apache_hudi.sql(f"CALL run_compaction(op=>'{what}', path=>'{path}', options=>'{NOW}')")
    assert table.compaction.run().instant is None
    assert_same_rows(apache_hudi.read(path), table.read(meta_columns=True), with_meta=True)
    assert table.read(where="id = 'k0'", meta_columns=True).select(["ts", "a", "b"]).to_pylist() == [
        {"ts": 200, "a": "A", "b": "b100"}
    ]
    assert verify_table(table.context.storage, deep=True).ok
