"""An update that began before a compaction, completed after it, and that Apache Hudi has archived: everybody's answer.

Apache Hudi archives into this state by itself. It reads the update, and so do we; the `hudi` package does not.

Source: docs/format §9.2.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.context import TableContext
from hudi_ops.storage.local import LocalStorage
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.verify import verify_table
from tests.fault_plans import MoveBefore
from tests.interop.apache_hudi import BELIEVED, WITHOUT_METADATA, HudiPeer
from tests.interop.compare import assert_same_rows

HudiRsReader = Callable[..., pa.Table]

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])
ARCHIVING = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.metadata.compact.max.delta.commits": "1",
}
WRITES_MAX = 4


def batch(rows: dict[str, int], ts: int) -> pa.Table:
    return pa.table({"id": list(rows), "v": list(rows.values()), "ts": [ts] * len(rows)}, SCHEMA)


def overlapped(path: Path, version: Literal[8, 9], *, metadata: bool) -> tuple[Table, Instant]:
    """A table in which a write of ours was requested, a compaction planned and executed, and then the write completed."""
    table = Table.create(
        str(path),
        name="overlapped",
        record_key=["id"],
        schema=SCHEMA,
        ordering="ts",
        table_type="mor",
        buckets=1,
        version=version,
        metadata=metadata,
        clean={"automatic": False},
        archive={"automatic": False},
    )
    table.ingest(batch({"a": 1, "b": 1, "c": 1}, 1))
    table.ingest(batch({"a": 2}, 2))
    between = MoveBefore(".log.", lambda: table.compaction.run())
    storage = FaultyStorage(LocalStorage(str(path)), between)
    late = Table(TableContext(storage=storage, locks=in_process_lock(table.context.storage.uri)))
    instant = late.ingest(batch({"b": 99}, 3)).instant
    timeline = load_timeline(table.context.storage, table.config)
    writer = timeline.find(instant or "")
    (compaction,) = (one for one in timeline if one.kind == "commit")
    assert writer is not None
    assert writer.time < compaction.time < writer.completion_time
    return table, writer


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize("metadata", [False, True], ids=["listed", "metadata"])
@pytest.mark.parametrize("version", [9, 8])
def test_all_but_the_hudi_package_read_it_before_and_after_our_compaction(
    version: Literal[8, 9], metadata: bool, tmp_path: Path, request: pytest.FixtureRequest, hudi_rs: HudiRsReader
) -> None:
    peer: HudiPeer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    path = tmp_path / "table"
    table, writer = overlapped(path, version, metadata=metadata)
    model = {"a": 2, "b": 99, "c": 1}
    storage = table.context.storage
    for number in range(WRITES_MAX):
        model[f"n{number}"] = number
        options = {**ARCHIVING, "hoodie.metadata.enable": str(metadata).lower()}
        peer.write(path, batch({f"n{number}": number}, 4), buckets=1, options=options)
        timeline = load_timeline(storage, table.config)
        if timeline.find(writer.time) is None:
            break
    assert timeline.find(writer.time) is None, "Apache Hudi archives the writer within a few writes"
    assert any(one.kind == "commit" for one in timeline), "and not the compaction"

    found = verify_table(storage, deep=True, index=True).findings
    (told,) = (one for one in found if one.invariant == "log-of-archived-writer")
    assert writer.time in told.where
    assert writer.completion_time in told.what
    assert values(hudi_rs(path)) == {**model, "b": 1}, "docs/format §9.2 says so of the package 0.5.0"

    check(path, peer, model, metadata=metadata)
    assert table.compaction.run().instant is not None
    check(path, peer, model, metadata=metadata)
    assert values(hudi_rs(path)) == model
    findings = verify_table(storage, deep=True, index=True).findings
    assert [one for one in findings if one.severity == "error" or one.invariant == "log-of-archived-writer"] == []


def check(path: Path, peer: HudiPeer, model: dict[str, int], *, metadata: bool) -> None:
    """Ours by every listing, a new handle each, and Apache Hudi's reader with and without the metadata table."""
    theirs = peer.read(path, options=WITHOUT_METADATA)
    assert values(theirs) == model
    if metadata:
        assert_same_rows(peer.read(path, options=BELIEVED), theirs, with_meta=True)
    for listing in ("auto", "storage", *(("metadata",) if metadata else ())):
        assert_same_rows(Table.open(str(path)).read(listing=listing, meta_columns=True), theirs, with_meta=True)


def values(rows: pa.Table) -> dict[str, int]:
    assert rows.num_rows == len(set(rows["id"].to_pylist()))
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
