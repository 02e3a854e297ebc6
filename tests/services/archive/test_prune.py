"""Ledgers that stay: each source file is taken once, also after the commits that took it left the timeline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops import Table
from hudi_ops.commit.ledger import POINTER_PREFIX
from hudi_ops.context import Owner
from hudi_ops.services.archive.prune import ledgers_kept, payloads_kept
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.ledger_chain import FOLDER, built_upon
from hudi_ops.timeline.names import instant_of_ms, ms_of_instant
from tests.fault_plans import DiesBefore
from tests.tables import TIMELINE

SCHEMA = pa.schema([("id", pa.string()), ("value", pa.int64())])


@pytest.fixture
def fed(tmp_path: Path) -> tuple[Table, Path, Path]:
    """A table that took a file of one source once, and files of another several times."""
    table = Table.create(str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, metadata=False)
    once, often = tmp_path / "once", tmp_path / "often"
    for folder, number in ((once, 0), *((often, n) for n in range(6))):
        folder.mkdir(exist_ok=True)
        rows = pa.Table.from_pylist([{"id": f"{folder.name}{number}", "value": number}], schema=SCHEMA)
        pq.write_table(rows, folder / f"f{number}.parquet")
        table.ingest_folder(str(folder))
    return table, once, often


def test_a_source_whose_commits_were_archived_takes_no_file_twice(
    fed: tuple[Table, Path, Path], tmp_path: Path
) -> None:
    table, once, often = fed
    done = table.archive.run(keep_min=1, keep_max=1)
    assert done.ledgers == 4, "those of the other source, but for the newest and the one that it builds upon"
    left = {info.path for info in table.context.storage.list(FOLDER)}
    assert {path for path in left for path in built_upon(table.context.storage, path)} <= left
    again = Table.open(str(tmp_path / "t"))
    for folder in (once, often):
        assert again.ingest_folder(str(folder)).instant is None
    assert again.read(["id"]).num_rows == 7


def test_a_restore_to_a_foreign_write_finds_the_ledgers_of_archived_ones(
    fed: tuple[Table, Path, Path], tmp_path: Path
) -> None:
    """No commit on the timeline names a slot then: the newest archived COMPLETE says which files were taken."""
    table, once, often = fed
    storage = table.context.storage
    foreign = instant_of_ms(table.context.clock.now_ms())
    storage.put(f"{TIMELINE}/{foreign}.commit.requested", b"")
    storage.put(f"{TIMELINE}/{foreign}.inflight", b"")
    completed = instant_of_ms(ms_of_instant(foreign) + 1)
    storage.put(f"{TIMELINE}/{foreign}_{completed}.commit", CommitMetadata(operation="UPSERT").to_bytes())
    table.savepoints.create(foreign)
    for number in (7, 8):
        pq.write_table(
            pa.Table.from_pylist([{"id": f"n{number}", "value": 9}], schema=SCHEMA), often / f"g{number}.parquet"
        )
        assert table.ingest_folder(str(often)).files == 1
    done = table.archive.run(keep_min=1, keep_max=1)
    assert (done.boundary < foreign, done.instants) == (True, 8), done
    assert len(table.savepoints.restore(foreign).undone) == 2
    again = Table.open(str(tmp_path / "t"))
    assert again.ingest_folder(str(often)).files == 2, "those of the undone writes"
    assert again.ingest_folder(str(once)).instant is None
    assert again.read(["id"]).num_rows == 9


def test_the_file_of_a_writer_that_died_is_taken_once_after_archiving(
    fed: tuple[Table, Path, Path], tmp_path: Path
) -> None:
    table, _, often = fed
    pq.write_table(pa.Table.from_pylist([{"id": "new", "value": 9}], schema=SCHEMA), often / "f9.parquet")
    faulty = FaultyStorage(open_storage(str(tmp_path / "t")), DiesBefore("put_if_absent:.hoodie/.commit_log/0"))
    gone = replace(Owner.of_this_process(), started="1")
    with pytest.raises(Crash):
        Table(replace(table.context, storage=faulty, owner=gone)).ingest_folder(str(often))
    assert table.archive.run(keep_min=1, keep_max=1).ledgers == 4
    again = Table.open(str(tmp_path / "t"))
    assert again.ingest_folder(str(often)).files == 1
    assert again.ingest_folder(str(often)).instant is None
    assert again.read(["id"]).num_rows == 8


def test_after_a_foreign_archiver_the_log_names_the_ledgers(fed: tuple[Table, Path, Path], tmp_path: Path) -> None:
    table, once, _ = fed
    session = table._session
    state = session.loader.load()
    named = session.newest_extra(state)
    paths = {path for key, path in named.items() if key.startswith(POINTER_PREFIX)}
    assert len(paths) == 2
    assert paths <= ledgers_kept(session, state)
    newest = state.timeline.completed_writes[-1]
    assert payloads_kept(session, state), newest
    assert all(newest.time in path for path in payloads_kept(session, state))
    for info in session.ctx.storage.list_folder(TIMELINE).files:
        if info.name.endswith("commit"):
            session.ctx.storage.delete(info.path)
    lonely = Table.open(str(tmp_path / "t"))._session
    assert paths <= ledgers_kept(lonely, lonely.loader.load()), "the payload of the newest COMPLETE names them"
    assert once
