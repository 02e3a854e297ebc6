"""Restores of either side: Apache Hudi reads, writes and restores on after ours, and waits for a pending one; the reverse, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudi_ops import Table
from hudi_ops.errors import InvalidRequest
from hudi_ops.storage.local import LocalStorage
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore
from tests.interop.apache_hudi import HudiPeer
from tests.interop.saved_tables import made, values
from tests.tables import by_key, versioned


@pytest.mark.rotate(shares=3)
@pytest.mark.parametrize(("kind", "metadata"), [("cow", False), ("cow", True), ("mor", True)])
def test_apache_hudi_goes_on_after_our_restore(
    apache_hudi: HudiPeer, tmp_path: Path, kind: str, metadata: bool
) -> None:
    table, path = made(tmp_path, kind, metadata)
    options = {"hoodie.metadata.enable": str(metadata).lower()}
    second = table._session.loader.load().timeline.completed_writes[2].time
    past = by_key(table, as_of=second)
    table.savepoints.create(second)
    apache_hudi.write(path, versioned(0, 8, 4), buckets=1, options=options)
    table = Table.open(str(path))
    table.ingest(versioned(2, 9, 5))
    done = table.savepoints.restore(second)
    assert len(done.undone) == 3
    assert values(apache_hudi.read(path)) == by_key(table) == past
    if metadata:
        assert values(apache_hudi.read(path, options={"hoodie.metadata.enable": "true"})) == past
    assert done.instant in str(apache_hudi.timeline(path))
    apache_hudi.write(path, versioned(0, 6, 7), buckets=1, options=options)
    table = Table.open(str(path))
    assert by_key(table) == values(apache_hudi.read(path)) == {key: 7 * n for n, key in enumerate(sorted(past))}
    apache_hudi.sql(f"call rollback_to_savepoint(path => '{path}', instant_time => '{second}')")
    table = Table.open(str(path))
    assert by_key(table) == values(apache_hudi.read(path)) == past
    table.ingest(versioned(0, 6, 9))
    assert table.savepoints.restore(second).undone, "ours after theirs"
    assert by_key(table) == values(apache_hudi.read(path)) == past
    assert not [one for one in verify_table(table._session.ctx.storage).findings if one.severity == "error"]


def test_apache_hudi_does_not_write_beside_our_pending_restore(apache_hudi: HudiPeer, tmp_path: Path) -> None:
    table, path = made(tmp_path, "cow", metadata=False)
    second = table._session.loader.load().timeline.completed_writes[2].time
    past = by_key(table, as_of=second)
    table.savepoints.create(second)
    table.ingest(versioned(0, 6, 5))
    dying = FaultyStorage(LocalStorage(str(path)), DiesBefore("delete:part="))
    with pytest.raises(Crash):
        _over(table, dying).savepoints.restore(second)
    with pytest.raises(Exception, match=r"[Rr]estore"):
        apache_hudi.write(path, versioned(0, 6, 6), buckets=1)
    finished = Table.open(str(path)).savepoints.restore()
    assert finished.savepoint == second
    assert values(apache_hudi.read(path)) == past
    apache_hudi.write(path, versioned(0, 6, 6), buckets=1)
    assert by_key(Table.open(str(path)))["k01"] == 6


def test_a_pending_restore_of_apache_hudi_is_named(apache_hudi: HudiPeer, tmp_path: Path) -> None:
    table, path = made(tmp_path, "cow", metadata=False)
    second = table._session.loader.load().timeline.completed_writes[2].time
    table.savepoints.create(second)
    table.ingest(versioned(0, 6, 5))
    apache_hudi.sql(f"call rollback_to_savepoint(path => '{path}', instant_time => '{second}')")
    folder = path / ".hoodie" / "timeline"
    (done,) = [file for file in folder.iterdir() if file.name.endswith(".restore")]
    done.unlink()
    with pytest.raises(InvalidRequest, match="Apache Hudi began a restore"):
        Table.open(str(path)).savepoints.restore(second)


def _over(table: Table, storage: FaultyStorage) -> Table:
    """The same table through another storage."""
    from dataclasses import replace

    return Table(replace(table._session.ctx, storage=storage))
