"""The archived timeline: what its own files hold, and nothing when it cannot be trusted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hudi_ops.errors import Corrupt
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.content import archived
from hudi_ops.timeline.content.archived import ArchivedInstant, archived_writes, load_history
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.history_parts import encode_part, part_name
from hudi_ops.timeline.settings.properties_file import load_config

NAME = "v9_cow_clean_savepoint_rollback_archive"
HISTORY = ".hoodie/timeline/history"


@pytest.fixture
def table(hudi_fixtures, tmp_path: Path) -> Path:
    return Path(shutil.copytree(hudi_fixtures(NAME), tmp_path / NAME))


def history(root: Path, **options):
    storage = open_storage(str(root))
    return load_history(storage, load_config(storage), **options)


def test_archived_instants_are_those_of_the_history_files(table):
    held = []
    for file in (table / HISTORY).glob("*.parquet"):
        held += pq.read_table(file, columns=["instantTime", "completionTime", "action"]).to_pylist()
    assert len(held) == 3
    read = history(table).instants
    assert [(one.time, one.completion_time, one.action) for one in read] == sorted(
        (row["instantTime"], row["completionTime"], row["action"]) for row in held
    )
    assert read[0].metadata is None, "content is read on request only"


def test_content_is_the_bytes_of_the_completed_file(table):
    for one in history(table, with_content=True).instants:
        assert CommitMetadata.from_bytes(one.metadata).operation == "UPSERT"


def test_without_the_version_file_the_newest_manifest_counts(table):
    (table / HISTORY / "_version_").unlink()
    shutil.copy(table / HISTORY / "manifest_1", table / HISTORY / "manifest_10")
    (table / HISTORY / "manifest_9").write_text(json.dumps({"files": []}))
    assert len(history(table).instants) == 3


def test_a_batch_that_two_files_hold_is_listed_once(table):
    (file,) = (table / HISTORY).glob("*.parquet")
    shutil.copy(file, table / HISTORY / "1_2_1.parquet")
    files = [{"fileName": name, "fileLen": 1} for name in (file.name, "1_2_1.parquet")]
    (table / HISTORY / "manifest_1").write_text(json.dumps({"files": files}))
    assert len(history(table).instants) == 3


def test_no_archive_at_all(hudi_fixtures):
    assert history(hudi_fixtures("v9_bucket_simple")).instants == ()


def test_archive_of_layout_1_is_reported(hudi_fixtures, tmp_path):
    root = Path(shutil.copytree(hudi_fixtures("v6_trips_8i1u_mor"), tmp_path / "v6"))
    assert history(root).note == ""
    (root / ".hoodie" / "archived").mkdir(exist_ok=True)
    (root / ".hoodie" / "archived" / ".commits_.archive.1_1-0-1").write_bytes(b"#HUDI#")
    assert history(root).note == "1 archive files of timeline layout 1 are not read"


@pytest.mark.parametrize(
    ("file", "body"),
    [
        ("manifest_1", b"not json"),
        ("manifest_1", b'{"files": [{"fileName": "gone.parquet"}]}'),
        ("manifest_1", b"[]"),
        ("*.parquet", b"PAR1 but no more"),
    ],
)
def test_broken_history_is_an_error_that_names_the_file(table, file, body):
    (path,) = (table / HISTORY).glob(file)
    path.write_bytes(body)
    with pytest.raises(Corrupt, match=path.name):
        history(table)


def test_writes_of_many_times_are_read_with_one_look_at_each_file(table, monkeypatch):
    """Not one for each batch of times: the files of a long history are large."""
    monkeypatch.setattr(archived, "WRITES_AT_ONCE", 2)
    inner = open_storage(str(table))
    config = load_config(inner)
    times = [f"201901010000{number:05d}" for number in range(9)]
    for some in (times[:4], times[4:], times[3:5]):  # the last one holds two instants a second time
        body = encode_part([ArchivedInstant(time, f"{time[:-1]}9", "commit", b"", None) for time in some])
        inner.put(f"{HISTORY}/{part_name(some, 0)}", body)
    names = [file.name for file in (table / HISTORY).glob("*.parquet")]
    (table / HISTORY / "manifest_1").write_text(json.dumps({"files": [{"fileName": name} for name in names]}))
    storage = FaultyStorage(inner)
    wanted = [*times[1:8], "20190101000099999"]
    assert sorted(one.time for one, _ in archived_writes(storage, config, wanted)) == times[1:8]
    looks = [point for point in storage.history if ".parquet" in point]
    assert len(looks) == len(names) == 4
    known = [one.time for one in history(table, with_content=True).instants if one.action == "commit"]
    assert [one.time for one, _ in archived_writes(storage, config, known[-1:])] == known[-1:]
    assert list(archived_writes(storage, config, [])) == []
