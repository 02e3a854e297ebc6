"""Keys that Apache Hudi's inserts put into two file groups: our answers are the same however files are listed.

Apache Hudi's own answers are not: by the record index it finds one of the rows, and by listing it finds both.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.int64()), ("part", pa.string())])
OPTIONS = {
    "hoodie.table.name": "doubled",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.parquet.small.file.limit": "0",
}
WITHOUT_METADATA = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
BY_INDEX = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
LOOK_UP = "id = 'k1'"


def rows(numbers: range, v: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": f"k{n}", "ts": v, "v": v, "part": f"p{n % 2}"} for n in numbers], SCHEMA)


@pytest.fixture
def peers(apache_hudi: HudiPeer, apache_hudi_1_0: HudiPeer) -> dict[int, HudiPeer]:
    return {9: apache_hudi, 8: apache_hudi_1_0}


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("version", [9, 8])
def test_answers_do_not_depend_on_how_files_are_listed(
    version: int, tmp_path: Path, peers: dict[int, HudiPeer]
) -> None:
    path, hudi = tmp_path / "t", peers[version]
    hudi.write(path, rows(range(20), 1), operation="insert", mode="overwrite", options=OPTIONS)
    hudi.write(path, rows(range(3), 2), operation="insert", options=OPTIONS)
    by_listing = hudi.read(path, where=LOOK_UP, options=WITHOUT_METADATA)
    assert by_listing.num_rows == 2
    assert hudi.read(path, where=LOOK_UP, options=BY_INDEX).num_rows == 1

    table = Table.open(str(path), index="record_index")
    assert table.adopt(dry_run=True).doubled_keys == 3
    adopted = table.adopt()
    assert (adopted.adopted, adopted.doubled_keys) == (True, 3)
    reader = Table.open(str(path))

    def check(found: int) -> None:
        for listing in ("auto", "metadata", "storage"):
            told = reader.scan(where=LOOK_UP, listing=listing, meta_columns=True)
            assert_same_rows(told.to_arrow(), hudi.read(path, where=LOOK_UP, options=WITHOUT_METADATA), with_meta=True)
            assert told.to_arrow().num_rows == found, listing
            assert reader.read(listing=listing).num_rows == hudi.read(path, options=WITHOUT_METADATA).num_rows

    check(2)
    assert (
        "3 record keys lie in more than one file group"
        in reader.scan(where=LOOK_UP, listing="metadata").explain().record_index_unused
    )
    report = verify_table(table.context.storage, deep=True, index=True)
    assert [one.what for one in report.findings if one.severity == "error"] == []
    assert any("3 keys are in several file groups" in one.what for one in report.findings)

    # What `verify` advised before: it builds the same index again, and counts.
    assert table.indexing.run(partitions=["record_index"], rebuild=True).doubled_keys == 3
    report = verify_table(table.context.storage, deep=True, index=True)
    assert [one.what for one in report.findings if one.severity == "error"] == []
    check(2)

    # What `verify` advises now: the key is deleted once for each of its two rows, with a build after each deletion.
    (advice,) = {one.next_step for one in report.findings if "are in several file groups" in one.what}
    assert "once per row, and run `hudi-ops index TABLE run record_index --rebuild` after each deletion" in advice
    for left in (
        3,
        0,
    ):  # each deletion finds the one row that the index names, and of three keys one row is left at first
        table.ingest(rows(range(3), 3).select(["id", "ts", "part"]), "delete")
        assert reader.read(where="id in ('k0', 'k1', 'k2')").num_rows == left
        assert table.indexing.run(partitions=["record_index"], rebuild=True).doubled_keys == 0
    table.ingest(rows(range(3), 4))
    check(1)
    told = reader.scan(where=LOOK_UP, listing="metadata").explain()
    assert (told.record_index_unused, told.files_read) == ("", 1)
    # And after our next write, which looks its keys up; Apache Hudi's next insert ends that.
    table.ingest(rows(range(2), 5))
    assert reader.scan(where=LOOK_UP, listing="metadata").explain().record_index_unused == ""
    hudi.write(path, rows(range(1, 2), 6), operation="insert", options=OPTIONS)
    check(2)
    assert (
        "may have put keys into a second file group"
        in reader.scan(where=LOOK_UP, listing="metadata").explain().record_index_unused
    )
    table.ingest(rows(range(30, 31), 7))
    check(2)
