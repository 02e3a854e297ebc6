"""Automatic cleans and archives beside Apache Hudi: it reads a table that they keep small, and its writes switch them off."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from hudi_ops import Table
from tests.interop.apache_hudi import HudiPeer
from tests.tables import VERSIONED, by_key, of_schema

COMMITS = 50


def row(version: int) -> pa.Table:
    return of_schema(VERSIONED, [("k", "p0", version, version)])


def new_table(path: Path, kind: Literal["cow", "mor"]) -> Table:
    return Table.create(
        str(path), name="small", record_key=["id"], schema=VERSIONED, ordering="ts", table_type=kind, buckets=1
    )


def data_files(path: Path) -> set[str]:
    return {file.name for file in path.glob("*") if file.is_file() and not file.name.endswith(".crc")}


def completed(path: Path) -> int:
    return len(list((path / ".hoodie" / "timeline").glob("*commit")))


def theirs(apache_hudi: HudiPeer, path: Path) -> dict[str, int]:
    found = apache_hudi.read(path)
    return dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True))


def test_apache_hudi_reads_and_writes_a_table_that_is_kept_small(apache_hudi: HudiPeer, tmp_path: Path) -> None:
    path = tmp_path / "table"
    table = new_table(path, "cow")
    for version in range(1, COMMITS + 1):
        table.ingest(row(version))
    assert len(data_files(path)) <= 22
    assert completed(path) <= 30
    assert theirs(apache_hudi, path) == {"k": COMMITS}
    apache_hudi.write(path, row(COMMITS + 1), buckets=1, options={"hoodie.metadata.enable": "true"})
    assert by_key(Table.open(str(path))) == theirs(apache_hudi, path) == {"k": COMMITS + 1}


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_write_of_apache_hudi_switches_them_off(
    apache_hudi: HudiPeer, tmp_path: Path, kind: Literal["cow", "mor"]
) -> None:
    path = tmp_path / "table"
    table = new_table(path, kind)
    table.ingest(row(1))
    quiet = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", "hoodie.metadata.enable": "true"}
    apache_hudi.write(path, row(2), buckets=1, options=quiet)
    before, writes = data_files(path), completed(path)

    for version in range(3, COMMITS + 3):
        assert table.ingest(row(version)).automatic == ()

    after = data_files(path)
    assert before <= after
    assert len(after) == len(before) + COMMITS
    assert completed(path) == writes + COMMITS
    assert by_key(table) == theirs(apache_hudi, path) == {"k": COMMITS + 2}
