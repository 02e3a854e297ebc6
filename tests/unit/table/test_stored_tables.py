"""Tables that recorded commits wrote are read, verified and continued: the promise of docs/compatibility.md.

Method: `tests/store_tables.py` packed them. They are unpacked, read, verified deeply, and their pending plans are executed.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from hudi_ops import Table
from tests.store_tables import COLUMNS, FOLDER, rows

ARCHIVES = sorted(FOLDER.glob("*.zip"))


def test_there_is_an_archive_of_each_kind() -> None:
    assert {path.name.partition("-")[0] for path in ARCHIVES} == {"cow", "mor"}


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
def test_a_stored_table_is_read_verified_and_continued(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path)
    model = {row["id"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    table = Table.open(tmp_path / "table")

    def shows(expected: dict[str, dict]) -> bool:
        return {row["id"]: row for row in table.read(COLUMNS).to_pylist()} == expected

    assert shows(model)
    assert table.verify(deep=True, index=True).errors == ()
    (plan,) = table.plans()
    service = table.clustering if plan.action == "clustering" else table.compaction
    assert service.execute(instant=plan.instant).instant == plan.instant
    assert shows(model)
    table.ingest(rows(range(50), 9))
    assert shows({row["id"]: row for row in rows(range(50), 9).to_pylist()})
    table.clean.run(policy="commits", retain=1)
    assert table.verify(deep=True, index=True).errors == ()
