"""What verify says of compactions: one that left a log file out, and one whose inputs are gone."""

from __future__ import annotations

from collections.abc import Callable

from hudi_ops.formats import avro
from hudi_ops.storage.memory import MemoryStorage
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
