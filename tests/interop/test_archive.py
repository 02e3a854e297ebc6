"""Archives of either side: Apache Hudi lists our archived instants, archives on after us and we after it; rows stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.conftest import HudiRsReader
from tests.tables import VERSIONED, by_key, versioned

ARCHIVING = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.archive.automatic": "true",
    "hoodie.timeline.compaction.batch.size": "2",
    "hoodie.metadata.compact.max.delta.commits": "2",
}


def made(folder: Path, kind: Any, metadata: bool, version: Any) -> tuple[Table, Path]:
    """A table with one partition and eight versions of its rows, its metadata table compacted."""
    path = folder / "table"
    table = Table.create(
        str(path),
        name="archived",
        record_key=["id"],
        schema=VERSIONED,
        partition_by=["part"],
        ordering="ts",
        table_type=kind,
        buckets=1,
        metadata=metadata,
        metadata_compact_after=3,
        version=version,
        clean={"automatic": False},
        archive={"automatic": False},
    )
    for number in range(1, 9):
        table.ingest(versioned(0, 6, number))
    return table, path


def values(table: pa.Table) -> dict[str, int]:
    """Values by key."""
    return dict(zip(table["id"].to_pylist(), table["value"].to_pylist(), strict=True))


def errors(table: Table) -> list[object]:
    """Findings that are errors."""
    found = verify_table(table._session.ctx.storage, deep=True, index=True).findings
    return [one for one in found if one.severity == "error"]


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize(
    ("kind", "metadata", "version"),
    [("cow", False, 9), ("cow", True, 9), ("mor", False, 9), ("mor", True, 9), ("cow", True, 8), ("mor", False, 8)],
)
def test_either_side_archives_on_after_the_other(
    tmp_path: Path,
    hudi_rs: HudiRsReader,
    request: pytest.FixtureRequest,
    kind: str,
    metadata: bool,
    version: int,
) -> None:
    apache_hudi: HudiPeer = request.getfixturevalue("apache_hudi" if version == 9 else "apache_hudi_1_0")
    table, path = made(tmp_path, kind, metadata, version)
    model = {f"k{n:02d}": n * 8 for n in range(6)}
    done = table.archive.run(keep_min=2, keep_max=2)
    assert done.instants >= 4
    assert (done.metadata_instants > 0) == metadata
    assert values(apache_hudi.read(path)) == values(hudi_rs(path)) == model
    ours = apache_hudi.timeline(path)["archived"]
    assert ours == done.instants
    # Without times it shows those of ten days ago to yesterday.
    between = "start_ts => '20200101000000000', end_ts => '20991231000000000'"
    call = f"call show_archived_commits(table => 'archived', limit => 100, {between})"
    shown = apache_hudi.sql(call, tables={"archived": path})
    assert done.boundary in shown.column("commit_time").to_pylist()
    assert shown.num_rows == ours
    options = {**ARCHIVING, "hoodie.metadata.enable": str(metadata).lower()}
    for number in range(9, 15):
        apache_hudi.write(path, versioned(0, 6, number), buckets=1, options=options)
    model = {key: n * 14 for n, key in enumerate(sorted(model))}
    theirs = apache_hudi.timeline(path)["archived"]
    assert theirs > ours, "Apache Hudi archives on after us"
    table = Table.open(str(path), metadata_compact_after=3)
    assert by_key(table) == model
    for number in range(15, 20):
        table.ingest(versioned(0, 6, number))
    model = {key: n * 19 for n, key in enumerate(sorted(model))}
    if metadata:
        table.metadata.compact()
    again = table.archive.run(keep_min=2, keep_max=2)
    assert again.instants >= 1, again
    assert by_key(table) == model
    assert values(apache_hudi.read(path, options={"hoodie.metadata.enable": str(metadata).lower()})) == model
    assert values(hudi_rs(path)) == model
    all_of_them = apache_hudi.timeline(path)["archived"]
    assert all_of_them == theirs + again.instants
    assert errors(table) == []
    apache_hudi.write(path, versioned(0, 6, 20), buckets=1, options=options)
    assert by_key(Table.open(str(path))) == {key: n * 20 for n, key in enumerate(sorted(model))}
