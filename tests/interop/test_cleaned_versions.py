"""Reads as of instants of a table that Apache Hudi cleans by file versions: their rows, or an error that names the clean."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.errors import InvalidRequest
from tests.interop.apache_hudi import HudiPeer
from tests.interop.expected import completed_instants


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_after_a_clean_by_file_versions_an_instant_shows_its_rows_or_names_the_clean(
    kind: str, tmp_path: Path, apache_hudi: HudiPeer
) -> None:
    path = tmp_path / "table"
    moments: dict[str, dict[str, int]] = {}
    model: dict[str, int] = {}
    for number, rows in enumerate(({"a": 1, "b": 1}, {"a": 2}, {"a": 3, "b": 3}, {"a": 4}, {"a": 5})):
        data = pa.table({"id": list(rows), "v": list(rows.values()), "part": list(rows)})
        options = {
            "hoodie.table.name": "versions",
            "hoodie.datasource.write.table.type": kind,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.metadata.enable": "true",
            "hoodie.clean.automatic": str(number > 2).lower(),
            "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
            "hoodie.clean.fileversions.retained": "1",
            "hoodie.compact.inline": str(kind == "MERGE_ON_READ").lower(),
            "hoodie.compact.inline.max.delta.commits": "1",
        }
        apache_hudi.write(path, data, mode="append" if number else "overwrite", buckets=1, options=options)
        model |= rows
        moments[max(completed_instants(path))] = dict(model)
        if number == 1:
            second = max(moments)
            apache_hudi.sql(f"CALL create_savepoint(table => 't', commit_time => '{second}')", tables={"t": path})
    outcomes: dict[str, list[str]] = {"read": [], "refused": []}
    for instant, rows in moments.items():
        for listing in ("auto", "storage", "metadata"):
            found = as_of(Table.open(str(path)), instant, listing)
            if isinstance(found, str):
                assert f"as of {instant}: clean " in found
            else:
                assert found == rows, (instant, listing)
            outcomes["refused" if isinstance(found, str) else "read"].append(instant)
    assert {second, max(moments)} <= set(outcomes["read"])
    assert outcomes["refused"]
    assert not set(outcomes["read"]) & set(outcomes["refused"]), "whoever lists the files"


def as_of(table: Table, instant: str, listing: str) -> dict[str, int] | str:
    try:
        found = table.read(["id", "v"], as_of=instant, listing=listing)
    except InvalidRequest as error:
        return error.what
    return dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
