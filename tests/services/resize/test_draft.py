"""The bytes of a resize plan, and how a draft follows what others do while it is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hudi_ops.errors import Busy, Conflict, Unsupported
from hudi_ops.formats.avro import container as avro
from hudi_ops.index.resizes import RESIZE_STRATEGY, is_resize
from hudi_ops.index.ring import TOP, parse_ring
from hudi_ops.services.base.choice import Reason
from hudi_ops.services.base.publish import Planned, publish_plan
from hudi_ops.services.resize.choose import ACTION, ResizeChoice
from hudi_ops.services.resize.draft import ResizeDraft
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.testing.faults import FaultyStorage
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.content.plan_bytes import encode_clustering
from hudi_ops.timeline.content.plans import ReplacePlan
from hudi_ops.timeline.log.entries import Plan
from hudi_ops.timeline.names import requested_name
from tests.services.resize.hand_plans import changed_ring
from tests.services.resize.ringed_tables import (
    BY_COMMIT_TIME,
    CONSISTENT,
    LARGE,
    SMALL,
    batch,
    changes,
    chosen,
    filled,
    hashes_of,
    keys_in,
    opened,
    plan_of,
    ring_of,
)
from tests.tables import NOW_MS, TIMELINE, rows

SKEWED = (LARGE, SMALL, SMALL, SMALL)


def writer(storage: Any) -> Table:
    return opened(storage, "writer", ManualClock(NOW_MS + 1_000, tick_ms=1))


def drafted(table: Table, **values: Any) -> ResizeDraft:
    """A draft of what the table's planner chooses now."""
    choice = chosen(table, **values)
    return ResizeDraft(table._session, table._session.loader.load(), choice)


def published(draft: ResizeDraft) -> Planned:
    return publish_plan(draft.session, ACTION, draft.draft())


def decided(planned: Planned) -> ResizeChoice:
    """The choice as the published draft has it."""
    choice = planned.draft.choice
    assert isinstance(choice, ResizeChoice)
    return choice


def touch(storage: Any, node: int, part: str = "p0", *, deletes: bool = False) -> str:
    """Write one key of a node; return the write's instant."""
    table = writer(storage)
    (key,) = keys_in(ring_of(table, f"part={part}"), node, 1)
    instant = table.ingest(rows((key, part, 2, 2, deletes or None))).instant
    assert instant is not None
    return instant


def test_a_plan_has_the_form_of_apache_hudis() -> None:
    storage = filled(CONSISTENT, SKEWED)
    table = opened(storage)
    touch(storage, 0)
    last = touch(storage, 0)
    planned = published(drafted(table))
    path = f"{TIMELINE}/{requested_name(planned.instant, ACTION)}"
    record = avro.read_one(storage.get(path), path)
    stored = record["clusteringPlan"]
    assert (record["operationType"], stored["preserveHoodieMetadata"]) == ("CLUSTER", True)
    assert stored["strategy"] == {"strategyClassName": RESIZE_STRATEGY, "strategyParams": {}, "version": 1}
    assert stored["missingSchedulePartitions"] == ["part=p0"]
    split, merge = stored["inputGroups"]
    assert (split["numOutputFileGroups"], merge["numOutputFileGroups"]) == (2, 1)
    (slice_,) = split["slices"]
    assert slice_["dataFilePath"].startswith("/"), "whole paths"
    assert slice_["deltaFilePaths"][0].rpartition("/")[2].split("_")[1].startswith(last), "the newest log file first"
    assert len(slice_["deltaFilePaths"]) == 2
    assert split["metrics"]["TOTAL_LOG_FILES"] == 2.0
    assert split["extraMetadata"].keys() == {
        "clustering.group.partition",
        "clustering.group.child.node",
        "clustering.group.sequence.no",
    }
    plan = plan_of(storage)
    assert is_resize(plan)
    assert changes(plan) == tuple(group.change for group in decided(planned).groups)
    assert plan.children == {("part=p0", name) for change in changes(plan) for name in change.prefixes}


def test_the_entry_names_the_parents_and_loses_groups_to_overwrites_alone() -> None:
    storage = filled(CONSISTENT, SKEWED)
    table = opened(storage)
    planned = published(drafted(table))
    state = table._session.loader.load()
    (entry,) = [one for one in state.log.entries if isinstance(one, Plan)]
    assert (entry.action, entry.on_overlap, entry.cancellable) == ("clustering", "shrink", True)
    ring = ring_of(table)
    parents = [("part=p0", ring.file_id(node)) for node in range(4)]
    assert planned.draft.footprint == Footprint.of_groups(parents)


def test_every_plan_leaves_a_whole_ring() -> None:
    storage = filled(CONSISTENT, SKEWED)
    table = opened(storage)
    ring, instant = ring_of(table), published(drafted(table)).instant
    found = changed_ring(ring, changes(plan_of(storage)), instant)
    assert parse_ring(found.to_bytes(), "ring", "part=p0", instant).values.tolist() == found.values.tolist()
    assert len(found.prefixes) == 3
    assert not {*found.prefixes} & {*ring.prefixes}
    assert (found.seq_no, int(found.values[-1])) == (1, TOP)


def test_a_draft_is_equal_in_every_process_and_a_later_plan_has_other_names() -> None:
    storage = filled(CONSISTENT, SKEWED)
    one, other = drafted(opened(storage)), drafted(opened(storage.copy(), "other", ManualClock(NOW_MS + 7)))
    assert one.draft().body == other.draft().body
    table = opened(storage)
    first = published(drafted(table))
    table.cancel(first.instant)
    second = published(drafted(opened(storage, "later", ManualClock(NOW_MS + 60_000, tick_ms=1))))
    names = [{name for group in decided(plan).groups for name in group.change.prefixes} for plan in (first, second)]
    assert not names[0] & names[1]


def test_a_plan_that_was_cancelled_meanwhile_shares_no_name() -> None:
    """Two planners start from one state; the plan of the first is cancelled before the second decides."""
    storage = filled(CONSISTENT, SKEWED)
    slow = drafted(opened(storage, "slow", ManualClock(NOW_MS + 60_000, tick_ms=1)))
    table = opened(storage)
    first = published(drafted(table))
    table.cancel(first.instant)
    second = published(slow)
    names = [{name for group in decided(plan).groups for name in group.change.prefixes} for plan in (first, second)]
    assert not names[0] & names[1]


def test_log_files_that_complete_meanwhile_join_the_plan() -> None:
    storage = filled(CONSISTENT, SKEWED)
    draft = drafted(opened(storage))
    first, second = touch(storage, 0), touch(storage, 2, deletes=True)
    planned = published(draft)
    assert (planned.draft.log_files_added, planned.draft.groups_dropped) == (2, 0)
    split, merge = plan_of(storage).groups
    assert [first in name for name in split.slices[0].log_files] == [True]
    assert [[second in name for name in one.log_files] for one in merge.slices] == [[], [True], []]
    assert split.metrics["TOTAL_LOG_FILES"] == 1.0
    assert planned.instant > second


def test_a_compaction_that_completed_meanwhile_takes_its_group() -> None:
    storage = filled(CONSISTENT, SKEWED)
    touch(storage, 2)
    draft = drafted(opened(storage))
    done = writer(storage).compaction.run()
    planned = published(draft)
    assert planned.draft.groups_dropped == 1
    assert [len(group.slices) for group in decided(planned).groups] == [1]
    pending = decided(planned).pending
    assert len(pending) == 3
    assert {why for _, why in pending} == {f"compaction {done.instant} replaced it while the plan was made"}
    assert plan_of(storage).unplanned == ("part=p0",)


def test_a_compaction_that_was_planned_meanwhile_takes_its_group() -> None:
    storage = filled(CONSISTENT, SKEWED)
    touch(storage, 0)
    draft = drafted(opened(storage))
    other = writer(storage).compaction.plan()
    planned = published(draft)
    assert [len(group.slices) for group in decided(planned).groups] == [3]
    assert decided(planned).counts()[Reason.PENDING] == 1
    assert decided(planned).pending[0][1] == f"compaction {other.instant} was planned on it while the plan was made"


def test_one_resize_of_a_partition_is_pending_at_a_time() -> None:
    storage = filled(CONSISTENT, SKEWED, SKEWED)
    merging = drafted(opened(storage), split_point="middle", max_partitions=2)
    splitting = drafted(opened(storage, "other"), max_bytes=1, partitions=["part=p0"])
    first = published(splitting)
    assert [len(group.slices) for group in decided(first).groups] == [1]
    second = published(merging)
    assert {group.partition_path for group in decided(second).groups} == {"part=p1"}
    assert second.draft.groups_dropped == 2, "also the merge, of which the other plan names no group"
    with pytest.raises(Conflict, match="took every file group that was chosen for a resize"):
        published(replace(merging))


@pytest.mark.parametrize("operation", ["insert_overwrite", "delete_partition"])
def test_an_overwrite_meanwhile_takes_every_group_of_its_partition(operation: str) -> None:
    storage = filled(CONSISTENT, SKEWED, SKEWED)
    draft = drafted(opened(storage), max_partitions=2)
    table = writer(storage)
    if operation == "delete_partition":
        table.delete_partition(["part=p0"])
    else:
        table.ingest(batch((0, 0, 0, SMALL), value=3), operation)
    planned = published(draft)
    assert {group.partition_path for group in decided(planned).groups} == {"part=p1"}
    assert planned.draft.groups_dropped == 2


def test_a_group_that_the_ring_does_not_name_takes_every_group_of_its_partition() -> None:
    """A write that was routed by another ring."""
    storage = filled(CONSISTENT, SKEWED)
    table = opened(storage)
    choice = chosen(table)
    ring = choice.rings["part=p0"]
    lacking = replace(choice, rings={"part=p0": replace(ring, prefixes=("x", *ring.prefixes[1:]))})
    draft = ResizeDraft(table._session, table._session.loader.load(), lacking)
    touch(storage, 0)
    with pytest.raises(Conflict, match="took every file group"):
        published(draft)


def test_a_new_group_of_a_node_leaves_the_ring_as_it_is() -> None:
    storage = filled(CONSISTENT, (LARGE, 0, SMALL, SMALL))
    draft = drafted(opened(storage))
    touch(storage, 1)
    planned = published(draft)
    assert (planned.draft.groups_dropped, len(decided(planned).groups)) == (0, 2)


def test_a_plan_that_cannot_be_read_stops_the_publication() -> None:
    storage = filled(CONSISTENT, SKEWED)
    draft = drafted(opened(storage))
    planned = published(drafted(opened(storage, "other")))
    storage.put(f"{TIMELINE}/{requested_name(planned.instant, ACTION)}", b"torn")
    with pytest.raises(Busy, match="is planned on the same file groups"):
        published(draft)


def test_a_foreign_commit_meanwhile_stops_a_table_that_merges_by_commit_time() -> None:
    storage = filled(BY_COMMIT_TIME, SKEWED)
    draft = drafted(opened(storage))
    touch(storage, 0)
    slots = {info.path for info in storage.list(".hoodie/.commit_log")}
    before = {info.path: storage.get(info.path) for info in storage.list()}
    twin = storage.copy()
    touch(twin, 2)
    for info in twin.list():
        if info.path not in before and not info.path.startswith(".hoodie/.") and "/.commit_log" not in info.path:
            body = twin.get(info.path)
            storage.put(info.path, _without_pointer(info.path, body))
    assert slots == {info.path for info in storage.list(".hoodie/.commit_log")}
    with pytest.raises(Unsupported, match="merges rows by commit time, and foreign writers"):
        published(draft)


def _without_pointer(path: str, body: bytes) -> bytes:
    """A completed file as a foreign writer leaves it."""
    if not path.endswith(".deltacommit"):
        return body
    metadata = CommitMetadata.from_bytes(body, path)
    extra = {key: value for key, value in metadata.extra.items() if not key.startswith("hudi_ops.")}
    return replace(metadata, extra=extra).to_bytes()


def test_a_publication_lists_no_partition_and_no_ring() -> None:
    faulty = FaultyStorage(filled(CONSISTENT, SKEWED))
    table = opened(faulty)
    draft = drafted(table)
    before = len(faulty.history)
    published(draft)
    calls = faulty.history[before:]
    print(f"storage calls of the publication of a resize: {len(calls)}")
    assert len(calls) <= CALLS
    assert not any("part=" in call or "hashing" in call for call in calls)


CALLS = 13
"""Storage calls of publishing a resize, without its choice: as those of any plan."""


def test_the_halves_hold_all_keys() -> None:
    storage = filled(CONSISTENT, SKEWED)
    table = opened(storage)
    ring = ring_of(table)
    published(drafted(table))
    found = changed_ring(ring, changes(plan_of(storage)), "1")
    keys = [key for node, count in enumerate(SKEWED) for key in keys_in(ring, node, count)]
    nodes = found.nodes_of(hashes_of(keys)).tolist()
    assert sorted(nodes.count(node) for node in range(3)) == [3 * SMALL, LARGE // 2, LARGE // 2]


def test_a_plan_that_nothing_disturbs_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no encoding under the lock, where a revision finds every group as it was chosen."""
    table = opened(filled(CONSISTENT, SKEWED))
    calls: list[int] = []

    def counted(plan: ReplacePlan) -> bytes:
        calls.append(len(plan.groups))
        return encode_clustering(plan)

    monkeypatch.setattr("hudi_ops.services.rewrite.draft.encode_clustering", counted)
    planned = table.resize.plan(split_bytes=1, merge_bytes=0)
    assert planned.instant is not None
    assert len(calls) == 1
