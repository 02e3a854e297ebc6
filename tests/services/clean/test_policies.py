"""Policies of a clean: what each keeps, what holds files back, and what is refused before anything changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.config.upkeep_settings import CleanSettings, UpkeepSettings
from hudi_ops.errors import InvalidRequest, Unsupported
from hudi_ops.services.clean.choose import LIMIT, NEWEST, RETAINED, FileVerdict
from hudi_ops.services.clean.earlier import HELD_BACK_KEY
from hudi_ops.services.clean.history import PastSlice
from hudi_ops.services.clean.keepers import HOLD, PENDING, SAVEPOINT, Keepers
from hudi_ops.services.clean.service import CLEAN
from hudi_ops.timeline.content.plans import CleanPlan, CleanResult, read_plan, read_result
from hudi_ops.verify import verify_table
from tests.protocol.log_actors import timeline_of
from tests.services.clean.cleaned import Judged, cleans_of, data_files, judged
from tests.tables import DEFINITION, LOGGED_WITH_METADATA, MERGE_ON_READ, WITH_METADATA, by_key, rows, table_of

HOUR_MS = 3_600_000
KINDS = pytest.mark.parametrize(
    "definition",
    [DEFINITION, MERGE_ON_READ, WITH_METADATA, LOGGED_WITH_METADATA],
    ids=["cow", "mor", "cow+mdt", "mor+mdt"],
)


def newest_clean(table: Judged) -> tuple[CleanPlan, CleanResult]:
    timeline = timeline_of(table.storage)
    clean = [one for one in timeline if one.kind == "clean" and one.is_completed][-1]
    plan, result = read_plan(table.storage, timeline, clean), read_result(table.storage, timeline, clean)
    assert isinstance(plan, CleanPlan)
    assert isinstance(result, CleanResult)
    return plan, result


def sound(table: Judged) -> None:
    assert by_key(table.table) == table.rows
    assert verify_table(table.storage, deep=True, clock=table.clock).findings == ()


@KINDS
def test_commits_keep_the_state_at_each_of_the_newest_commits(definition) -> None:
    table = judged(definition)
    for number in range(9):
        table.write(*range(4))
        if definition.table_type == "MERGE_ON_READ" and number % 3 == 1:
            table.compact()
    writes = [one.time for one in timeline_of(table.storage).completed_writes]
    done = table.table.clean.run(retain=3)
    assert done.earliest_retained == writes[-3]
    assert done.deleted > 0
    promised = [instant for instant in table.past if instant >= writes[-3]]
    assert set(promised) <= set(table.readable())
    sound(table)
    # Of what is left, nothing is superseded before the earliest retained instant.
    explained = table.table.clean.explain(retain=3)
    assert {verdict.reason for verdict in explained.verdicts} == {RETAINED, NEWEST}
    assert sum(explained.counts.values()) == len(data_files(table.storage))


@KINDS
def test_versions_keep_the_newest_slices_of_each_group(definition) -> None:
    table = judged(definition)
    for _ in range(4):
        table.write(*range(4))
        table.write(*range(4))
        if definition.table_type == "MERGE_ON_READ":
            table.compact()
    done = table.table.clean.run(policy="versions", retain=2)
    assert done.earliest_retained == ""
    assert done.deleted > 0
    bases: dict[str, int] = {}
    for path in table.files():
        if path.endswith(".parquet"):
            group = path.split("_")[0]
            bases[group] = bases.get(group, 0) + 1
    assert set(bases.values()) == {2}
    assert newest_clean(table)[0].earliest_retained == ""
    sound(table)


def test_hours_keep_the_state_at_each_time_of_the_last_hours() -> None:
    table = judged()
    writes = []
    for _ in range(5):
        writes.append(table.write(*range(4)))
        table.clock.advance_ms(2 * HOUR_MS)
    # Now is ten hours after the first write; the last five hours begin between the third and the fourth.
    done = table.table.clean.run(policy="hours", retain=5)
    assert done.earliest_retained == writes[3]
    assert table.readable() == writes[2:], "the third write made what was read when the five hours began"
    table.clock.advance_ms(30 * HOUR_MS)
    assert table.table.clean.run(policy="hours", retain=5).earliest_retained == writes[4]
    assert table.readable() == writes[3:], "no write lies in the last hours: the state when they began stays"


def test_up_to_as_many_commits_as_are_retained_nothing_is_deleted() -> None:
    table = judged(DEFINITION, 9)  # and the first, empty commit of `create`
    before = data_files(table.storage)
    done = table.table.clean.run()
    assert done.instant is None
    assert "nothing to delete" in done.note
    assert data_files(table.storage) == before
    assert cleans_of(table.storage) == []


def test_the_earliest_never_passes_a_pending_plan_and_the_clean_after_it_goes_on() -> None:
    table = judged(MERGE_ON_READ, 3)
    planned = table.table.compaction.plan(threshold=1).instant
    assert planned is not None
    last = [one.time for one in timeline_of(table.storage).completed_writes if one.time < planned][-1]
    for _ in range(6):
        table.write(*range(4))
    note = table.table.clean.plan(retain=2, dry_run=True).note
    assert f"instants from {last} on" in note
    assert planned in note
    table.table.compaction.execute(instant=planned)
    table.past[planned] = {**table.past[last]}
    sound(table)
    table.compact()
    table.write(*range(4))
    table.write(*range(4))
    assert table.table.clean.run(retain=2).deleted > 0
    sound(table)


def test_versions_keep_what_a_pending_plan_reads_and_name_it() -> None:
    table = judged(MERGE_ON_READ, 2)
    table.compact()
    table.write(*range(4))
    planned = table.table.compaction.plan(threshold=1).instant
    before = data_files(table.storage)
    explained = table.table.clean.explain(policy="versions", retain=1)
    assert explained.counts.get(PENDING, 0) == 0, "what it reads is the newest slice"
    done = table.table.clean.run(policy="versions", retain=1)
    assert done.deleted == len(before - data_files(table.storage)) > 0
    assert table.table.compaction.execute(instant=planned).instant == planned
    sound(table)


def test_a_pending_plan_keeps_the_slices_that_it_reads_and_newer_ones() -> None:
    """Apache Hudi may replace a group that a pending plan reads: by versions its slices would go at once."""
    reads = Keepers(reads={("p0", "group"): ("20300101000000002", "compaction 20300101000000005")})
    old, read, newer = (
        PastSlice(
            "p0", "group", f"2030010100000000{instant}", (), "20300101000000006", "20300101000000006", 3 - instant
        )
        for instant in (1, 2, 3)
    )
    assert reads.keeper_of(old, "x") is None
    assert (
        reads.keeper_of(read, "x") == reads.keeper_of(newer, "x") == (PENDING, "compaction 20300101000000005 reads it")
    )
    assert reads.keeper_of(replace(read, file_id="other"), "x") is None


def test_a_savepoint_keeps_its_files_until_it_is_deleted() -> None:
    table = judged(DEFINITION, 3)
    saved = table.write(*range(4))
    table.table.savepoints.create(saved)
    for _ in range(5):
        table.write(*range(4))
    done = table.table.clean.run(retain=2)
    assert done.held_back == 2, "one file in each group"
    plan, result = newest_clean(table)
    assert plan.extra["savepointed_timestamps"] == result.extra["savepointed_timestamps"] == saved
    assert HELD_BACK_KEY in plan.extra
    assert by_key(table.table, as_of=saved) == table.past[saved]
    why = table.table.clean.explain(retain=2)
    assert {one.why for one in why.verdicts if one.reason == SAVEPOINT} == {f"savepoint {saved} names it"}
    table.table.savepoints.delete(saved)
    table.write(0, 1)
    assert table.table.clean.run(retain=2).deleted >= 2
    assert saved not in table.readable()
    sound(table)


def test_a_hold_keeps_its_instant_readable_until_it_expires() -> None:
    table = judged(DEFINITION, 3)
    held = table.write(*range(4))
    hold = table.table.holds.take(held, seconds=3_600, purpose="nightly export")
    for _ in range(5):
        table.write(*range(4))
    note = table.table.clean.plan(retain=2, dry_run=True).note
    assert f"instants from {held} on" in note
    assert "nightly export" in note
    table.table.clean.run(retain=2)
    assert by_key(table.table, as_of=held) == table.past[held]
    by_versions = table.table.clean.explain(policy="versions", retain=1)
    assert {one.reason for one in by_versions.verdicts} == {NEWEST, HOLD, "planned"}, (
        "planned: what is older than the hold"
    )
    assert any(hold.id in one.why for one in by_versions.verdicts)
    table.clock.advance_ms(2 * HOUR_MS)
    assert table.table.clean.run(retain=2).deleted > 0
    assert held not in table.readable()
    sound(table)


def test_replaced_groups_go_once_the_replacement_is_older_than_the_earliest() -> None:
    table = judged(DEFINITION, 2)
    groups = data_files(table.storage)
    table.table.ingest(rows(("k0", "p0", 77, 77, None), ("k1", "p1", 77, 77, None)), operation="insert_overwrite")
    table.rows, table.count = {"k0": 77, "k1": 77}, 77
    table.write(0, 1)
    assert table.table.clean.run(retain=2).instant is None or groups & data_files(table.storage)
    table.write(0, 1)
    table.write(0, 1)
    table.table.clean.run(retain=2)
    assert not groups & data_files(table.storage)
    sound(table)


def test_partitions_that_become_empty_stay_listed() -> None:
    table = judged(WITH_METADATA, 3)
    table.table.delete_partition(["part=p1"])
    table.rows = {key: value for key, value in table.rows.items() if int(key[1:]) % 2 == 0}
    for _ in range(4):
        table.write(0, 2)
    table.table.clean.run(retain=2)
    assert not any(path.startswith("part=p1") for path in data_files(table.storage))
    sound(table)
    table.write(1, 3)
    sound(table)


def test_a_limit_leaves_the_rest_to_the_next_clean() -> None:
    table = judged(DEFINITION, 8)
    expected = table.table.clean.explain(retain=2).counts["planned"]
    first = table.table.clean.run(retain=2, max_files=3)
    assert (first.deleted, first.held_back) == (3, expected - 3)
    assert table.table.clean.explain(retain=2, max_files=3).counts[LIMIT] == expected - 6
    deleted = 3
    while (done := table.table.clean.run(retain=2, max_files=3)).instant is not None:
        deleted += done.deleted
    assert deleted == expected
    sound(table)


def test_an_empty_clean_moves_the_earliest_once_a_day() -> None:
    table = judged()
    for key in range(12):
        table.write(key)
    assert table.table.clean.run(policy="commits", retain=3).deleted > 0
    for key in range(20, 24):
        table.add(f"n{key}")
    table.table.clean.run(retain=1)
    before = cleans_of(table.storage)
    table.add("n99")
    assert table.table.clean.run(retain=1).instant is None, "less than a day after the last clean"
    assert cleans_of(table.storage) == before
    table.clock.advance_ms(25 * HOUR_MS)
    assert table.table.clean.plan(retain=1).instant is None, "Apache Hudi 1.1.1 fails on a pending plan without files"
    assert cleans_of(table.storage) == before
    done = table.table.clean.run(retain=1)
    assert (done.deleted, done.earliest_retained) == (0, timeline_of(table.storage).completed_writes[-1].time)
    assert len(cleans_of(table.storage)) == len(before) + 1
    assert table.table.clean.run(retain=1).instant is None
    sound(table)


def test_an_empty_clean_does_not_pass_a_held_back_file() -> None:
    table = judged(DEFINITION, 2)
    saved = table.write(*range(4))
    table.table.savepoints.create(saved)
    for _ in range(3):
        table.write(*range(4))
    first = table.table.clean.run(retain=2)
    table.clock.advance_ms(25 * HOUR_MS)
    table.add("n1")
    table.add("n2")
    assert table.table.clean.run(retain=1).deleted > 0
    table.clock.advance_ms(25 * HOUR_MS)
    table.add("n3")
    assert first.instant is not None
    assert table.table.clean.run(retain=1).instant is None, "the savepoint's files are older than every new earliest"


def test_explain_names_the_keeper_of_a_file() -> None:
    table = judged(DEFINITION, 4)
    path = sorted(data_files(table.storage))[0]
    (verdict,) = table.table.clean.explain(retain=1, files=[path]).verdicts
    assert isinstance(verdict, FileVerdict)
    assert f"{verdict.partition_path}/{verdict.file}" == path
    table.storage.put(
        f"{verdict.partition_path}/00000009-aaaa-bbbb-cccc-000000000000-0_0-1-0_29990101000000000.parquet", b"x"
    )
    (stray,) = table.table.clean.explain(files=[f"{verdict.partition_path}/00000009*"]).verdicts
    assert stray.reason == "not committed"


@pytest.mark.parametrize(
    "wrong",
    [{"policy": "bytes"}, {"retain": 0}, {"retain": -1}, {"max_files": 0}, {"policy": ""}],
    ids=lambda wrong: "-".join(f"{key}={value}" for key, value in wrong.items()),
)
def test_a_wrong_request_changes_nothing(wrong) -> None:
    table = judged(DEFINITION, 3)
    before = table.storage.copy()
    with pytest.raises(InvalidRequest):
        table.table.clean.run(**wrong)
    assert [info.path for info in before.list("")] == [info.path for info in table.storage.list("")]


@pytest.mark.parametrize("change", [{"version": 6}, {"layout": 1}], ids=str)
def test_older_tables_are_unsupported(change) -> None:
    table = judged(DEFINITION, 1)
    state = table.table._session.loader.load()
    config = state.config.model_copy(update=change)
    with pytest.raises(Unsupported):
        CLEAN.refuse_table(replace(state, config=config))


@pytest.mark.parametrize("retain", [8_000_000, 9_999_999, 2**31 - 1])
def test_hours_that_reach_before_the_first_instant_keep_everything(retain: int) -> None:
    table = judged(DEFINITION)
    for _ in range(6):
        table.write(*range(4))
        table.clock.advance_ms(HOUR_MS)
    before = data_files(table.storage)
    done = table.table.clean.run(policy="hours", retain=retain)
    assert (done.deleted, data_files(table.storage)) == (0, before)
    assert table.readable() == sorted(table.past)
    # An archive after it takes no instant that the clean promised.
    table.table.archive.run(keep_min=1, keep_max=1)
    assert table.readable() == sorted(table.past)


def test_automatic_cleans_keep_everything_for_hours_without_end() -> None:
    table = judged(DEFINITION)
    clean = CleanSettings(automatic=True, policy="hours", retain=9_999_999)
    writer = table_of(table.storage, table.clock, "writer", upkeep=UpkeepSettings(clean=clean))
    past = [writer.ingest(rows(("k0", "p0", number, number, None))).instant for number in range(12)]
    assert [by_key(writer, as_of=instant)["k0"] for instant in past] == [*range(12)]
    with pytest.raises(InvalidRequest, match="a hold must last"):
        writer.holds.take(timeline_of(table.storage).start, seconds=1e12)
