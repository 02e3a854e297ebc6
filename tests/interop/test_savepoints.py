"""Savepoints of either side: Apache Hudi lists ours, cleans around them, deletes them and restores to them; and the reverse."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_ops import Table
from hudi_ops.errors import InvalidRequest
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.saved_tables import made, values
from tests.tables import by_key, versioned

CLEANING = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.archive.automatic": "true",
}


@pytest.mark.rotate(shares=2)
@pytest.mark.parametrize(("kind", "metadata"), [("cow", False), ("mor", True)])
def test_apache_hudi_honours_and_restores_our_savepoint(
    apache_hudi: HudiPeer, tmp_path: Path, kind: str, metadata: bool
) -> None:
    table, path = made(tmp_path, kind, metadata)
    second = table._session.loader.load().timeline.completed_writes[2].time
    past = by_key(table, as_of=second)
    table.savepoints.create(second, comments="before")
    shown = apache_hudi.sql(f"call show_savepoints(path => '{path}')")
    assert second in shown.column(0).to_pylist()
    options = {**CLEANING, "hoodie.metadata.enable": str(metadata).lower()}
    for version in range(4, 10):
        apache_hudi.write(path, versioned(0, 6, version), buckets=1, options=options)
    timeline = apache_hudi.timeline(path)
    assert timeline["archived"], "Apache Hudi archived what is older"
    assert len(list(path.glob("part=p0/*.parquet"))) < 9, "Apache Hudi cleaned"
    again = Table.open(str(path))
    assert by_key(again, as_of=second) == past
    assert by_key(again) == {key: 9 * n for n, key in enumerate(sorted(past))}
    assert not [one for one in verify_table(again._session.ctx.storage).findings if one.severity == "error"]
    apache_hudi.sql(f"call rollback_to_savepoint(path => '{path}', instant_time => '{second}')")
    assert values(apache_hudi.read(path)) == past
    assert by_key(Table.open(str(path))) == past


def test_each_side_deletes_the_others_savepoint(apache_hudi: HudiPeer, tmp_path: Path) -> None:
    table, path = made(tmp_path, "cow", metadata=False)
    first, second, third = (one.time for one in table._session.loader.load().timeline.completed_writes[1:])
    table.savepoints.create(first)
    apache_hudi.sql(f"call delete_savepoint(path => '{path}', instant_time => '{first}')")
    table = Table.open(str(path))
    assert table.savepoints.list() == []
    apache_hudi.sql(f"call create_savepoint(path => '{path}', commit_time => '{third}')")
    (theirs,) = table.savepoints.list()
    assert (theirs.instant, theirs.files) == (third, 1)
    assert table.savepoints.create(third).note == "this savepoint exists already"
    table.savepoints.delete(third)
    assert second not in apache_hudi.sql(f"call show_savepoints(path => '{path}')").column(0).to_pylist()
    assert apache_hudi.sql(f"call show_savepoints(path => '{path}')").num_rows == 0
    apache_hudi.sql("call run_clean(table => 'saved', retain_commits => 1)", tables={"saved": path})
    with pytest.raises(InvalidRequest, match="retains the instants from"):
        table.savepoints.create(first)
