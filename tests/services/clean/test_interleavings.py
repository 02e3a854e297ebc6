"""A clean among savepoints, holds, plans, takeovers, readers and other programs; what is refused is refused before a deletion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from hudi_ops.commit.decide.cancel import cancel_write
from hudi_ops.concurrency.lease.lease import EXPIRY_MS
from hudi_ops.errors import Busy, Cancelled, Corrupt, InvalidRequest, Unavailable
from hudi_ops.services.base.publish import Draft, publish_plan
from hudi_ops.services.clean.earlier import HELD_BACK_KEY, decode_held_back
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.content.clean_bytes import CleanDone, encode_clean_plan, encode_clean_result
from hudi_ops.timeline.content.footprint import Footprint
from hudi_ops.timeline.content.plans import CleanPlan, CleanResult, read_plan, read_result
from hudi_ops.timeline.names import instant_of_ms
from hudi_ops.verify import verify_table
from tests.fault_plans import DiesBefore, MoveBefore
from tests.protocol.log_actors import session_of, timeline_of
from tests.services.clean.cleaned import Judged, cleans_of, data_files, judged
from tests.tables import DEFINITION, MERGE_ON_READ, TIMELINE, WITH_METADATA, by_key, rows, table_of

LISTED = "list_folder:part=p1"
"""While the files are chosen, or checked by the executor; without the lock."""
DELETES = "delete:part="


def sound(table: Judged) -> None:
    table.clock.advance_ms(EXPIRY_MS + 1_000)
    table.table.recover()
    assert by_key(table.table) == table.rows
    assert verify_table(table.storage, deep=True, clock=table.clock).findings == ()


def plan_of(table: Judged, instant: str) -> CleanPlan:
    timeline = timeline_of(table.storage)
    found = timeline.find(instant, "clean")
    assert found is not None
    plan = read_plan(table.storage, timeline, found)
    assert isinstance(plan, CleanPlan)
    return plan


def put_plan(table: Judged, plan: CleanPlan, change: Callable[[bytes], bytes] = lambda body: body) -> str:
    """Publish a plan as it is."""
    session = session_of(table.storage, table.clock, "planner")
    body = change(encode_clean_plan(table.storage, plan))
    return publish_plan(session, "clean", Draft(body, Footprint(frozenset()), session.loader.load())).instant


def moved(table: Judged, point: str, move: Callable[[], object]) -> tuple[FaultyStorage, MoveBefore]:
    plan = MoveBefore(point, move)
    return FaultyStorage(table.storage, plan), plan


def test_a_savepoint_that_is_made_while_the_clean_is_planned_keeps_its_files() -> None:
    table = judged(DEFINITION, 4)
    saved = table.write(*range(4))
    for _ in range(4):
        table.write(*range(4))
    storage, plan = moved(table, LISTED, lambda: table.table.savepoints.create(saved))
    done = table_of(storage, table.clock, "cleaner").clean.run(retain=2)
    assert plan.moved
    assert done.held_back == 2
    assert by_key(table.table, as_of=saved) == table.past[saved]
    sound(table)


def test_a_savepoint_of_files_that_a_plan_deletes_is_refused() -> None:
    table = judged(DEFINITION, 4)
    old = list(table.past)[1]
    for _ in range(4):
        table.write(*range(4))
    table.table.clean.plan(retain=2)
    with pytest.raises(InvalidRequest, match="older"):
        table.table.savepoints.create(old)
    table.table.clean.execute()
    sound(table)


def test_of_two_cleans_one_is_planned() -> None:
    table = judged(DEFINITION, 8)
    storage, plan = moved(table, LISTED, lambda: table.table.clean.plan(retain=3))
    with pytest.raises(Busy, match=r"clean \d+ is pending"):
        table_of(storage, table.clock, "cleaner").clean.plan(retain=2)
    assert plan.moved
    assert len([one for one in timeline_of(table.storage).pending if one.action == "clean"]) == 1
    table.table.clean.execute()
    sound(table)


def test_a_clean_that_completes_meanwhile_begins_the_choice_anew() -> None:
    table = judged(WITH_METADATA, 8)
    before = len(data_files(table.storage))
    storage, plan = moved(table, "list_folder:.hoodie/.holds", lambda: table.table.clean.run(retain=2))
    done = table_of(storage, table.clock, "cleaner").clean.run(retain=2)
    assert plan.moved
    assert done.deleted == 0
    assert len(cleans_of(table.storage)) == 1
    assert len(data_files(table.storage)) < before
    sound(table)


def test_a_pending_restore_is_in_the_way() -> None:
    table = judged(DEFINITION, 8)
    time = instant_of_ms(table.clock.now_ms() + 1_000)
    storage, plan = moved(table, LISTED, lambda: table.storage.put(f"{TIMELINE}/{time}.restore.requested", b""))
    with pytest.raises(Busy, match="restore"):
        table_of(storage, table.clock, "cleaner").clean.plan(retain=2)
    assert plan.moved


def test_a_hold_that_is_taken_before_the_takeover_is_seen_by_the_executor() -> None:
    table = judged(DEFINITION, 4)
    held = table.write(*range(4))
    for _ in range(4):
        table.write(*range(4))
    planned = table.table.clean.plan(retain=2)
    table.table.holds.take(held, seconds=3_600)
    done = table.table.clean.execute(instant=planned.instant)
    assert done.held_back == 4, "reads as of the held instant and of the next one need two files each"
    assert done.deleted > 0
    assert by_key(table.table, as_of=held) == table.past[held]
    timeline = timeline_of(table.storage)
    clean = timeline.find(planned.instant or "", "clean")
    assert clean is not None
    result = read_result(table.storage, timeline, clean)
    assert isinstance(result, CleanResult)
    named = decode_held_back(result.extra[HELD_BACK_KEY], "")
    assert sum(map(len, named.values())) == 4
    table.clock.advance_ms(2 * 3_600_000)
    table.write(0)
    assert table.table.clean.run(retain=2).deleted >= 4, "the next clean asks for them by name"
    sound(table)


def test_a_hold_that_is_taken_while_files_are_deleted_is_refused() -> None:
    table = judged(DEFINITION, 4)
    held = table.write(*range(4))
    for _ in range(4):
        table.write(*range(4))
    table.table.clean.plan(retain=2)
    refused: list[InvalidRequest] = []

    def take() -> None:
        with pytest.raises(InvalidRequest, match="clean") as error:
            table.table.holds.take(held, seconds=60)
        refused.append(error.value)

    storage, _ = moved(table, DELETES, take)
    assert table_of(storage, table.clock, "cleaner").clean.execute().deleted > 0
    assert refused
    sound(table)


def test_an_executor_that_sleeps_before_its_deletions_harms_nothing() -> None:
    table = judged(WITH_METADATA, 8)
    planned = table.table.clean.plan(retain=2).instant

    def overtake() -> None:
        table.clock.advance_ms(EXPIRY_MS + 1_000)
        assert table_of(table.storage, table.clock, "second").clean.execute(instant=planned).epoch == 2
        table.write(*range(4))

    storage, plan = moved(table, DELETES, overtake)
    with pytest.raises(Cancelled):
        table_of(storage, table.clock, "first").clean.execute(instant=planned)
    assert plan.moved
    assert cleans_of(table.storage) == [planned]
    sound(table)


def test_a_begun_clean_is_finished_and_not_cancelled() -> None:
    table = judged(DEFINITION, 8)
    planned = table.table.clean.plan(retain=2).instant
    assert planned is not None
    storage = FaultyStorage(table.storage, DiesBefore(DELETES))
    with pytest.raises(Crash):
        table_of(storage, table.clock, "first").clean.execute(instant=planned)
    table.clock.advance_ms(EXPIRY_MS + 1_000)
    with pytest.raises(InvalidRequest, match="was begun"):
        cancel_write(session_of(table.storage, table.clock, "other"), planned, "no reason")
    with pytest.raises(InvalidRequest, match="was begun"):
        table.table.rollback(planned)
    assert table.table.clean.run(retain=2).instant == planned
    sound(table)


def test_a_planned_clean_can_be_cancelled_and_leaves_its_files_to_the_next() -> None:
    table = judged(DEFINITION, 8)
    planned = table.table.clean.plan(retain=2)
    assert planned.instant is not None
    table.table.rollback(planned.instant)
    assert timeline_of(table.storage).pending == ()
    assert table.table.clean.run(retain=2).deleted == planned.counts["planned"]
    sound(table)


def test_another_program_completes_our_clean() -> None:
    """Apache Hudi executes a pending clean that it finds, without a slot."""
    table = judged(DEFINITION, 8)
    planned = table.table.clean.plan(retain=2).instant
    assert planned is not None
    plan = plan_of(table, planned)

    def complete() -> None:
        for partition, names in plan.files.items():
            for name in names:
                table.storage.delete(f"{partition}/{name}")
        body = encode_clean_result(plan, CleanDone(planned, 1, plan.files, {}), dict(plan.extra))
        table.storage.put(f"{TIMELINE}/{planned}_{instant_of_ms(table.clock.now_ms())}.clean", body)

    storage, moves = moved(table, DELETES, complete)
    done = table_of(storage, table.clock, "cleaner").clean.execute(instant=planned)
    assert moves.moved
    assert (done.instant, done.note) == (planned, "another program completed it first")
    assert len([info for info in table.storage.list(TIMELINE) if info.name.endswith(".clean")]) == 1
    assert table.table.clean.execute(instant=planned).note == "it was completed before"
    assert by_key(table.table) == table.rows
    found = verify_table(table.storage, deep=True, clock=table.clock).findings
    assert {one.invariant for one in found} == {"foreign-instant"}, "it says that another program writes to the table"


def test_a_clean_that_apache_hudi_began_is_executed_once_its_end_is_stated() -> None:
    table = judged(DEFINITION, 8)
    planned = table.table.clean.plan(retain=2).instant
    body = table.storage.get(f"{TIMELINE}/{planned}.clean.requested")
    table.storage.put(f"{TIMELINE}/{planned}.clean.inflight", body)
    with pytest.raises(InvalidRequest, match="--abandoned"):
        table.table.clean.execute(instant=planned)
    with pytest.raises(InvalidRequest, match="was begun"):
        table.table.rollback(planned, abandoned=True)
    with pytest.raises(Busy, match="is pending"):
        table.table.clean.run(retain=2)
    assert table.table.clean.execute(instant=planned, abandoned=True).deleted > 0
    sound(table)


def test_the_inflight_file_has_the_bytes_of_the_plan() -> None:
    table = judged(DEFINITION, 8)
    planned = table.table.clean.plan(retain=2).instant
    seen: list[bytes] = []
    storage, _ = moved(table, DELETES, lambda: seen.append(table.storage.get(f"{TIMELINE}/{planned}.clean.inflight")))
    table_of(storage, table.clock, "cleaner").clean.execute()
    assert seen == [table.storage.get(f"{TIMELINE}/{planned}.clean.requested")]
    assert seen[0]


def _outside(table: Judged, plan: CleanPlan) -> tuple[CleanPlan, Callable[[bytes], bytes]]:
    root = b"/crash/" if b"/crash/" in encode_clean_plan(table.storage, plan) else b"/part=p0/"
    return plan, lambda body: body.replace(root, root.replace(b"s", b"z").replace(b"0", b"9"))


def _upwards(table: Judged, plan: CleanPlan) -> tuple[CleanPlan, Callable[[bytes], bytes]]:
    (path, names), *_ = plan.files.items()
    return replace(plan, files={f"{path}/..": names}), lambda body: body


def _timeline(table: Judged, plan: CleanPlan) -> tuple[CleanPlan, Callable[[bytes], bytes]]:
    return replace(
        plan, files={TIMELINE: (timeline_of(table.storage).completed_writes[0].file_name,)}
    ), lambda body: body


def _newest(table: Judged, plan: CleanPlan) -> tuple[CleanPlan, Callable[[bytes], bytes]]:
    last = list(table.past)[-1]
    (path,) = (one for one in table.files() if last in one and "part=p0" in one)
    return replace(plan, files={**plan.files, "part=p0": (path.rpartition("/")[2],)}), lambda body: body


def _pending(table: Judged, plan: CleanPlan) -> tuple[CleanPlan, Callable[[bytes], bytes]]:
    before = table.files()
    writer = table_of(FaultyStorage(table.storage, DiesBefore("put:.hoodie/.commit_log/payload")), table.clock, "other")
    with pytest.raises(Crash):
        writer.ingest(rows(("k0", "p0", 99, 99, None)))
    (path,) = table.files() - before
    return replace(plan, files={"part=p0": (path.rpartition("/")[2],)}), lambda body: body


def _metadata_file(table: Judged, plan: CleanPlan) -> tuple[CleanPlan, Callable[[bytes], bytes]]:
    return replace(plan, files={"part=p0": (".hoodie_partition_metadata",)}), lambda body: body


@pytest.mark.parametrize(
    "make", [_outside, _upwards, _timeline, _newest, _pending, _metadata_file], ids=lambda one: one.__name__
)
def test_a_plan_that_names_what_must_stay_is_refused_before_it_is_begun(make) -> None:
    table = judged(DEFINITION, 8)
    good = table.table.clean.plan(retain=2).instant
    assert good is not None
    plan = plan_of(table, good)
    table.table.rollback(good)
    wrong, change = make(table, plan)
    instant = put_plan(table, wrong, change)
    before = {info.path for info in table.storage.list("") if not info.path.startswith(".hoodie/.")}
    with pytest.raises(Corrupt, match="names"):
        table.table.clean.execute(instant=instant)
    after = {info.path for info in table.storage.list("") if not info.path.startswith(".hoodie/.")}
    assert after == before
    assert take_over_of(table, instant) is None, "it was not begun: it can still be cancelled"
    if make is not _pending:
        table.table.rollback(instant)
        assert table.table.clean.run(retain=2).deleted > 0
        sound(table)


def take_over_of(table: Judged, instant: str) -> object:
    return session_of(table.storage, table.clock, "judge").loader.load().log.takeover(instant)


def test_inputs_of_a_completed_plan_that_a_savepoint_names_stay() -> None:
    """A savepoint holds the slices that a compaction read; the compaction completed, and then comes the clean."""
    table = judged(MERGE_ON_READ, 3)
    saved = table.write(*range(4))
    table.table.savepoints.create(saved)
    table.compact()
    for _ in range(3):
        table.write(*range(4))
        table.compact()
    assert table.table.clean.run(retain=1).held_back > 0
    assert by_key(table.table, as_of=saved) == table.past[saved]
    table.table.clean.run(policy="versions", retain=1)
    assert by_key(table.table, as_of=saved) == table.past[saved]
    sound(table)


@pytest.mark.parametrize("policy", [{"policy": "commits", "retain": 1}, {"policy": "versions", "retain": 1}], ids=str)
def test_a_clean_beside_an_executor_that_completes_takes_nothing_that_it_reads(policy: Mapping[str, object]) -> None:
    """The compaction completes while the clean is planned, or between its plan and its execution."""
    for point in (LISTED, DELETES):
        table = judged(MERGE_ON_READ, 2)
        table.compact()
        table.write(*range(4))
        planned = table.table.compaction.plan(threshold=1).instant
        table.write(*range(4))
        storage, _ = moved(
            table, point, lambda table=table, planned=planned: table.table.compaction.execute(instant=planned)
        )
        table_of(storage, table.clock, "cleaner").clean.run(**policy)
        table.table.compaction.execute(instant=planned)
        sound(table)
        table.write(*range(4))
        table.compact()
        table.write(0)
        table.table.clean.run(**policy)
        sound(table)


def test_a_reader_of_slices_that_are_deleted_is_told_and_gets_no_fewer_rows() -> None:
    table = judged(DEFINITION, 8)
    old = list(table.past)[2]
    assert by_key(table.table, as_of=old) == table.past[old]
    storage, plan = moved(table, "open_input:part=p1", lambda: table.table.clean.run(retain=1))
    with pytest.raises((InvalidRequest, Unavailable)):
        by_key(table_of(storage, table.clock, "reader"), as_of=old)
    assert plan.moved
    storage, plan = moved(table, "open_input:part=p1", lambda: table.table.clean.run(policy="versions", retain=1))
    assert by_key(table_of(storage, table.clock, "reader")) == table.rows
    sound(table)


def test_a_metadata_table_that_is_built_anew_meanwhile_forgets_the_files_too() -> None:
    table = judged(WITH_METADATA, 8)
    storage, plan = moved(table, DELETES, lambda: table.table.indexing.run(rebuild=True))
    assert table_of(storage, table.clock, "cleaner").clean.run(retain=2).deleted > 0
    assert plan.moved
    sound(table)


def test_the_earliest_never_lies_below_that_of_an_earlier_clean() -> None:
    table = judged(DEFINITION, 9)
    first = table.table.clean.run(retain=2)
    table.write(*range(4))
    table.write(*range(4))
    note = table.table.clean.plan(retain=9, dry_run=True).note
    assert f"instants from {first.earliest_retained} on" in note


def test_a_damaged_history_is_reported_and_nothing_is_planned() -> None:
    table = judged(DEFINITION, 8)
    table.table.clean.run(retain=2)
    (clean,) = (one for one in timeline_of(table.storage) if one.kind == "clean")
    table.storage.put(f"{TIMELINE}/{clean.file_name}", b"not a clean")
    table.write(*range(4))
    before = data_files(table.storage)
    with pytest.raises(Corrupt, match=clean.time):
        table.table.clean.run(retain=1)
    assert data_files(table.storage) == before
