from __future__ import annotations

import pytest

from hudi_ops.errors import Corrupt
from hudi_ops.metadata.reader.instants import init_instants, load_metadata_timeline
from hudi_ops.metadata.records.partitions import FOLDER
from hudi_ops.metadata.writer.commit import apply_delta, undo_delta
from hudi_ops.metadata.writer.delta import MetadataDelta
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.active import Timeline

TIME, COMPLETION = "20261122100000000", "20261122100000900"
LOG = f"{FOLDER}/partition_stats/.partition-stats-0000-0_%s.log.1_0-1-0"
ABOVE = MetadataDelta(COMPLETION, ((LOG % COMPLETION, b"above"),), b"commit above")
DELTA = MetadataDelta(TIME, ((LOG % TIME, b"log"), (f"{FOLDER}/files/.x", b"")), b"commit", ABOVE)


@pytest.mark.parametrize("delta", [DELTA, ABOVE, MetadataDelta(TIME, (), b"")])
def test_a_bundle_is_read_as_it_was_made(delta: MetadataDelta):
    assert MetadataDelta.from_bytes(delta.to_bytes(), "bundle") == delta


@pytest.mark.parametrize("body", [b"", b"ARROW1", DELTA.to_bytes()[:200]])
def test_what_is_no_bundle_is_refused_by_its_path(body: bytes):
    with pytest.raises(Corrupt, match=r"^some/path is not a bundle"):
        MetadataDelta.from_bytes(body, "some/path")


def test_a_delta_and_the_one_above_it_complete_together_and_fill_no_partition():
    storage = MemoryStorage()
    for _ in range(2):  # whoever applies it, however often
        apply_delta(storage, DELTA, COMPLETION)
    own = load_metadata_timeline(storage)
    assert [(one.time, one.completion_time) for one in own.completed_writes] == [
        (TIME, COMPLETION),
        (COMPLETION, COMPLETION),
    ]
    assert storage.get(LOG % COMPLETION) == b"above"
    assert init_instants(own, Timeline("", 2, ())) == (f"{TIME}_{COMPLETION}.deltacommit",)


def test_a_delta_that_is_undone_leaves_the_one_above_it():
    storage = MemoryStorage()
    apply_delta(storage, DELTA, COMPLETION)
    undo_delta(storage, [TIME])
    (left,) = load_metadata_timeline(storage)
    assert left.time == COMPLETION
    assert [info.name for info in storage.list_folder(f"{FOLDER}/partition_stats").files] == [
        (LOG % COMPLETION).rpartition("/")[2]
    ]
