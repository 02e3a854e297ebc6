"""A writer that loaded the properties before a drop lists a folder that is half deleted: it tries again, and does not fail."""

from __future__ import annotations

import pytest

from hudi_ops.errors import Conflict, Unsupported
from hudi_ops.metadata.reader.layout import group_counts, refuse_dropped
from hudi_ops.metadata.records.partitions import FOLDER
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.settings.properties_file import load_config
from tests.protocol.metadata_table import LATER, make_table, read_rows, table_of
from tests.tables import NOW_MS, WITH_METADATA

NAME = "record_index"


def built() -> tuple[MemoryStorage, ManualClock]:
    clock = ManualClock(NOW_MS, tick_ms=1)
    storage = make_table(WITH_METADATA).copy(clock)
    table_of(storage, clock, "builder").indexing.run(partitions=[NAME])
    return storage, clock


def delete_first_group(storage: MemoryStorage) -> None:
    for info in storage.list(f"{FOLDER}/{NAME}"):
        if "record-index-0000-0" in info.name:
            storage.delete(info.path)


def test_a_dropped_partition_is_a_conflict() -> None:
    storage, clock = built()
    before = load_config(storage)
    refuse_dropped(storage, before)
    table_of(storage, clock, "dropper").indexing.drop([NAME])
    with pytest.raises(Conflict, match="record_index of the metadata table was dropped while this write was made"):
        refuse_dropped(storage, before)


def test_groups_of_a_named_partition_that_lack_a_number_stay_refused() -> None:
    storage, _ = built()
    delete_first_group(storage)
    with pytest.raises(Unsupported, match="not maintained yet"):
        group_counts(storage, load_config(storage), [NAME])


def test_a_write_beside_a_half_deleted_partition_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    from hudi_ops.commit import session as module

    storage, clock = built()
    counts, calls = module.group_counts, []

    def amid_a_drop(*given):
        if not calls:
            calls.append(1)
            kept = {info.path: storage.get(info.path) for info in storage.list(f"{FOLDER}/{NAME}")}
            table_of(storage, clock, "dropper").indexing.drop([NAME])
            for path, body in kept.items():
                storage.put(path, body)
            delete_first_group(storage)
        return counts(*given)

    monkeypatch.setattr(module, "group_counts", amid_a_drop)
    table_of(storage, clock, "writer").ingest(LATER)
    assert calls
    assert read_rows(storage, clock)["n4"] == 4
