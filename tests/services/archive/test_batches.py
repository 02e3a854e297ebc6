"""Batches: what the history keeps, what leaves, in which order, and what a run removes with it."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from hudi_ops.config.requests import ArchiveRequest
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.services.archive import run as service
from hudi_ops.services.archive.levels import FILES_MERGED
from hudi_ops.services.archive.run import archive
from hudi_ops.timeline.content.archived import load_history_of
from hudi_ops.timeline.log.cancelled import MARKS
from hudi_ops.timeline.log.commit_log import FOLDER as LOG
from hudi_ops.timeline.log.entries import Archive
from tests.protocol.log_actors import session_of, timeline_of, whole_log
from tests.services.archive.archived_tables import (
    HISTORY,
    METADATA_HISTORY,
    REQUEST,
    archived,
    assert_whole,
    history_of,
    known_times,
    long_table,
)
from tests.tables import (
    DEFINITION,
    LOGGED_WITH_METADATA,
    MERGE_ON_READ,
    WITH_METADATA,
    by_key,
    rows,
    table_of,
)

KINDS = {"cow": DEFINITION, "mor": MERGE_ON_READ, "cow-mdt": WITH_METADATA, "mor-mdt": LOGGED_WITH_METADATA}


@pytest.mark.parametrize("kind", KINDS)
def test_old_instants_are_in_the_history_with_their_bytes_and_rows_stay(kind: str) -> None:
    storage, clock = long_table(KINDS[kind])
    model = by_key(table_of(storage, clock, "reader"))
    before = timeline_of(storage)
    completed = {one.time: storage.get(before.path(one.file_name)) for one in before}
    done = archived(storage, clock)
    left = timeline_of(storage)
    gone = [one for one in before if left.find(one.time) is None]
    assert (done.instants, done.boundary) == (len(gone), gone[-1].time)
    assert len(left.completed_writes) in ((3,) if "mdt" not in kind else (3, 4, 5)), "the metadata table may need more"
    found = history_of(storage)
    assert [(one.time, one.completion_time, one.action, one.metadata) for one in found] == [
        (one.time, one.completion_time, one.kind, completed[one.time]) for one in gone
    ]
    entry = whole_log(storage).entries[-1]
    assert isinstance(entry, Archive)
    assert storage.head(entry.history) is not None
    assert_whole(storage, clock, model)
    table_of(storage, clock, "writer").ingest(rows(("k9", "p1", 1000, 1000, None)))
    assert_whole(storage, clock, {**model, "k9": 1000})


def test_the_history_file_is_one_that_apache_hudi_reads() -> None:
    storage, clock = long_table(DEFINITION)
    archived(storage, clock)
    (name,) = (info.name for info in storage.list_folder(HISTORY).files if info.name.endswith(".parquet"))
    times = [one.time for one in history_of(storage)]
    assert name == f"{times[0]}_{times[-1]}_0.parquet"
    file = pq.ParquetFile(storage.open_input(f"{HISTORY}/{name}"))
    required = {name: column.nullable for name, column in zip(file.schema_arrow.names, file.schema_arrow, strict=True)}
    assert required == dict.fromkeys(("instantTime", "completionTime", "action", "metadata", "plan"), True) | {
        "version": False
    }
    assert json.loads(file.schema_arrow.metadata[b"parquet.avro.schema"])["name"] == "HoodieLSMTimelineInstant"
    assert file.metadata.row_group(0).column(0).compression == "GZIP"
    assert storage.get(f"{HISTORY}/_version_") == b"1"
    manifest = json.loads(storage.get(f"{HISTORY}/manifest_1"))
    info = storage.head(f"{HISTORY}/{name}")
    assert info is not None
    assert manifest == {"files": [{"fileName": name, "fileLen": info.size_bytes}]}


def test_a_second_run_has_nothing_to_do_and_decides_nothing() -> None:
    storage, clock = long_table(LOGGED_WITH_METADATA)
    archived(storage, clock)
    slots = len(whole_log(storage).entries)
    files = [info.path for info in storage.list("")]
    again = archived(storage, clock, "second")
    assert (again.instants, again.metadata_instants, again.batches) == (0, 0, 0)
    assert len(whole_log(storage).entries) == slots
    assert [info.path for info in storage.list("")] == files


def test_a_batch_is_bounded_and_the_next_goes_on(monkeypatch) -> None:
    storage, clock = long_table(DEFINITION)
    monkeypatch.setattr(service, "BATCH_MAX", 2)
    model, times = by_key(table_of(storage, clock, "reader")), known_times(storage)
    assert archive(session_of(storage, clock, "first"), REQUEST, batches=1).instants == 2
    done = archived(storage, clock, "second", ArchiveRequest(keep_min=3, keep_max=3))
    assert (done.instants, done.batches) == (5, 3)
    assert known_times(storage) == times
    assert_whole(storage, clock, model)


def test_a_dry_run_and_explain_change_nothing_and_agree_with_the_run() -> None:
    storage, clock = long_table(WITH_METADATA)
    before = [info.path for info in storage.list("")]
    table = table_of(storage, clock, "asker")
    asked, explained = table.archive.run(REQUEST, dry_run=True), table.archive.explain(REQUEST)
    assert [info.path for info in storage.list("")] == before
    assert asked.dry_run
    done = table.archive.run(REQUEST)
    assert (asked.instants, asked.boundary, asked.kept) == (done.instants, done.boundary, done.kept)
    assert [one.instant for one in explained.verdicts if not one.why] == [one.time for one in history_of(storage)]


def test_below_the_upper_number_nothing_is_archived() -> None:
    storage, clock = long_table(DEFINITION, 3)
    done = archived(storage, clock)
    assert (done.instants, done.boundary) == (0, None)
    assert "begins above 4" in done.note


def test_wrong_numbers_and_tables_are_refused_and_change_nothing() -> None:
    storage, clock = long_table(DEFINITION)
    before = [(info.path, info.modified_ms) for info in storage.list("")]
    with pytest.raises(InvalidRequest, match="keep_min is below 1"):
        ArchiveRequest(keep_min=0)
    with pytest.raises(InvalidRequest, match="keep_min is 9, and keep_max is 5"):
        archived(storage, clock, request=ArchiveRequest(keep_min=9, keep_max=5))
    assert [(info.path, info.modified_ms) for info in storage.list("")] == before


@pytest.mark.parametrize(("key", "value"), [("hoodie.timeline.layout.version", "1"), ("hoodie.table.version", "6")])
def test_another_layout_or_version_is_unsupported(key: str, value: str) -> None:
    storage, clock = long_table(DEFINITION)
    path = ".hoodie/hoodie.properties"
    lines = [
        line for line in storage.get(path).decode().splitlines() if not line.startswith((key, "hoodie.table.checksum"))
    ]
    session = session_of(storage, clock, "asker")
    session.loader.load()
    storage.put(path, "\n".join([*lines, f"{key}={value}"]).encode())
    with pytest.raises(Unsupported):
        archive(session, REQUEST)
    assert storage.list_folder(HISTORY).files == ()


def test_ledgers_and_payloads_go_but_for_those_that_may_be_asked_for() -> None:
    storage, clock = long_table(DEFINITION)
    session = session_of(storage, clock, "archiver")
    times = known_times(storage)
    for time in times:
        storage.put(f".hoodie/.ingest/{time}/abc.json", b"{}")
    storage.put(f"{MARKS}/{times[1]}", b"3")
    done = archive(session, REQUEST)
    assert (done.ledgers, done.payloads) == (7, 6)
    above = [time for time in times if time > (done.boundary or "")]
    assert sorted(storage.list_folder(".hoodie/.ingest").folders) == above
    assert sorted(storage.list_folder(f"{LOG}/payload").folders) == [done.boundary, *above], (
        "and the newest archived one"
    )
    assert storage.head(f"{MARKS}/{times[1]}") is not None
    assert [entry.decision_id for entry in whole_log(storage).entries][:2], "slots stay"


def test_enough_files_of_a_level_are_merged_and_old_ones_go(monkeypatch) -> None:
    storage, clock = long_table(DEFINITION, FILES_MERGED + 5)
    monkeypatch.setattr(service, "BATCH_MAX", 1)
    model, times = by_key(table_of(storage, clock, "reader")), known_times(storage)
    done = archived(storage, clock)
    assert (done.batches, done.merged) == (13, 1)
    names = [info.name for info in storage.list_folder(HISTORY).files]
    assert f"{times[0]}_{times[FILES_MERGED - 1]}_1.parquet" in names
    number = int(storage.get(f"{HISTORY}/_version_"))
    kept = sorted(int(name.partition("_")[2]) for name in names if name.startswith("manifest_"))
    assert kept == list(range(number - 3, number + 1))
    assert known_times(storage) == times
    assert len(history_of(storage)) == 13
    assert_whole(storage, clock, model)


def test_the_metadata_tables_timeline_is_archived_up_to_the_start_of_the_tables() -> None:
    storage, clock = long_table(LOGGED_WITH_METADATA, 12)
    folder = ".hoodie/metadata/.hoodie/timeline"
    before = {name.partition("_")[0] for name in (info.name for info in storage.list_folder(folder).files)}
    model = by_key(table_of(storage, clock, "reader"))
    done = archived(storage, clock)
    start = timeline_of(storage).start
    assert done.metadata_instants > 3
    kept = load_history_of(storage, METADATA_HISTORY, frozenset(time.partition(".")[0] for time in before))
    assert len(kept) == done.metadata_instants
    assert max(one.time for one in kept) < start
    assert_whole(storage, clock, model)


def test_files_that_a_late_applier_puts_back_are_removed_from_the_metadata_tables_timeline() -> None:
    storage, clock = long_table(LOGGED_WITH_METADATA, 12)
    folder = ".hoodie/metadata/.hoodie/timeline"
    before = [info.path for info in storage.list_folder(folder).files]
    archived(storage, clock)
    left = {info.path for info in storage.list_folder(folder).files}
    gone = [path for path in before if path not in left]
    for path in gone[:5]:
        storage.put(path, b"")
    archived(storage, clock, "second")
    assert {info.path for info in storage.list_folder(folder).files} == left
