"""What verify says of compactions: one that left a log file out, and one whose inputs are gone."""

from __future__ import annotations

from collections.abc import Callable

from hudi_ops.formats.avro import container as avro
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.verify import verify_table
from tests.protocol.archived_history import PLAIN, archived, made
from tests.unit.verify.breaking import found, timeline_of

PENDING = "v9_mor_pending_compaction_clustering"
COMPLETED = "v9_txns_nonpart_nometa_mor"


def plan_path(storage: MemoryStorage) -> str:
    (instant,) = [one for one in timeline_of(storage) if one.action == "compaction"]
    return timeline_of(storage).path(f"{instant.time}.compaction.requested")


def of_compactions(storage: MemoryStorage) -> list[tuple[str, str]]:
    return [one for one in found(storage, deep=False) if one[1].startswith("compaction-")]


def test_compactions_of_apache_hudi_are_whole(in_memory: Callable[[str], MemoryStorage]):
    for name in (PENDING, COMPLETED):
        assert of_compactions(in_memory(name)) == []


def test_a_completed_compaction_that_left_out_a_log_file_is_an_error(in_memory: Callable[[str], MemoryStorage]):
    storage = in_memory(COMPLETED)
    path = plan_path(storage)
    schema, (plan,) = avro.read_container(storage.get(path), path)
    plan["operations"][0]["deltaFilePaths"].pop()
    storage.put(path, avro.write_one(schema, plan))
    assert of_compactions(storage) == [("error", "compaction-left-out")]


def test_a_pending_compaction_whose_inputs_are_gone_is_an_error(in_memory: Callable[[str], MemoryStorage]):
    for key in ("dataFilePath", "deltaFilePaths"):
        storage = in_memory(PENDING)
        path = plan_path(storage)
        one = avro.read_one(storage.get(path), path)["operations"][0]
        name = one[key] if isinstance(one[key], str) else one[key][0]
        storage.delete(f"{one['partitionPath']}/{name}")
        assert of_compactions(storage) == [("error", "compaction-input-missing")]


def test_a_log_file_that_only_the_history_places_is_reported_with_group_writer_and_completion():
    storage, clock, writer = archived(PLAIN)
    (found,) = (one for one in verify_table(storage, clock=clock).findings if one.severity != "info")
    assert (found.severity, found.invariant) == ("warning", "log-of-archived-writer")
    assert f"_{writer.time}.log." in found.where
    for told in (f"writer {writer.time}", f"completed at {writer.completion_time}", "file group 00000000-"):
        assert told in found.what
    assert found.next_step.startswith("`hudi-ops compact TABLE` merges it")
    assert verify_table(made(PLAIN)[0], clock=clock).findings == ()


def test_a_log_file_that_nothing_places_is_reported_as_read_with_the_newest_base_file():
    storage, clock, writer = archived(PLAIN)
    for info in storage.list(".hoodie/timeline/history"):
        storage.delete(info.path)
    reported = [one for one in verify_table(storage, clock=clock).findings if one.invariant == "log-of-archived-writer"]
    assert any(writer.time in one.where and "not in the archived timeline" in one.what for one in reported)


def test_a_history_that_is_needed_and_cannot_be_read_is_an_error():
    storage, clock, _ = archived(PLAIN)
    (path,) = (info.path for info in storage.list(".hoodie/timeline/history") if info.path.endswith(".parquet"))
    storage.put(path, b"PAR1")
    assert "history-broken" in {one.invariant for one in verify_table(storage, clock=clock).errors}
