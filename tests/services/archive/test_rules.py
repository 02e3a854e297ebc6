"""Rules that keep instants on the timeline: each alone, and what a batch takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudi_ops.services.archive.rules import Facts, leaving, verdicts, why_kept
from hudi_ops.timeline.active import Timeline, timeline_of
from hudi_ops.timeline.names import parse_file_name


def time_of(number: int) -> str:
    """Request time of an instant; it completes half a second later."""
    return f"203001010000{number:02d}000"


def timeline(*names: str) -> Timeline:
    """Timeline of these files."""
    files = [parsed for name in names if (parsed := parse_file_name(name, 2)) is not None]
    assert len(files) == len(names)
    return timeline_of(files, ".hoodie/timeline", 2)


def done(number: int, action: str = "commit") -> str:
    """Completed file of an instant."""
    return f"{time_of(number)}_{time_of(number)[:-3]}500.{action}"


SIX = Facts(timeline(*map(done, range(1, 7))), keep=2)


def going(facts: Facts) -> list[str]:
    """Request times of the instants that leave."""
    return [one.time for one in leaving(facts, 500)]


def test_without_a_reason_only_the_policy_keeps_instants() -> None:
    assert going(SIX) == [time_of(n) for n in (1, 2, 3, 4)]
    assert [one.why for one in verdicts(SIX)] == ["", "", "", "", *["the policy keeps the newest 2 writes"] * 2]


def with_files(*names: str) -> Facts:
    return Facts(timeline(*map(done, range(1, 7)), *names), keep=2)


CASES = {
    "a pending service": (
        with_files(f"{time_of(3)[:-3]}100.clean.requested"),
        [1, 2, 3],
        time_of(3)[:-3] + "100",
        "pending",
    ),
    "a pending clustering looks at what completed after its plan": (
        with_files(f"{time_of(3)[:-3]}100.clustering.requested", f"{time_of(1)[:-3]}200_{time_of(3)[:-3]}200.commit"),
        [1],
        f"{time_of(1)[:-3]}200",
        "whose executor has to find it",
    ),
    "a pending write needs a completed one before it": (
        with_files(f"{time_of(3)[:-3]}900.inflight"),
        [1, 2],
        time_of(3),
        "a completed write before it must stay",
    ),
    "a pending rollback": (replace(SIX, undoing={time_of(2): "rollback 9"}), [1], time_of(2), "rollback 9 undoes"),
    "a savepoint": (with_files(done(3, "savepoint")), [1, 2], time_of(3), "savepoint of"),
    "replaced files": (replace(SIX, replaced={time_of(3): "p0/a.parquet"}), [1, 2], time_of(3), "p0/a.parquet"),
    "left files": (
        replace(SIX, left={time_of(3)[:-3] + "100": "p0/b.parquet exists"}),
        [1, 2],
        time_of(3),
        "p0/b.parquet exists",
    ),
    "the last metadata compaction": (
        replace(SIX, metadata_compaction=time_of(4)),
        [1, 2, 3],
        time_of(4),
        "metadata table's last compaction",
    ),
    "no metadata compaction": (replace(SIX, metadata_compaction=""), [], time_of(1), "never compacted"),
    "a hold": (replace(SIX, holds={time_of(2): "hold x keeps it"}), [1], time_of(2), "hold x keeps it"),
    "the last clean": (replace(SIX, clean=("9", time_of(4))), [1, 2, 3], time_of(4), "clean 9 retains"),
    "a late completion": (
        replace(SIX, late={time_of(2): "waits for the next compaction"}),
        [1],
        time_of(2),
        "waits for",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_reason_stops_a_batch(case: str) -> None:
    facts, leave, kept, why = CASES[case]
    writes = [time for time in going(facts) if time in map(time_of, range(1, 7))]
    assert writes == [time_of(n) for n in leave]
    said = {one.instant: one.why for one in verdicts(facts)}
    assert why in said[kept], said
    assert all(said[time] for time in said if time >= kept), "what lies above stays, too"
    last = next(one for one in facts.timeline if one.time == time_of(6))
    assert why_kept(facts, last)


def test_a_batch_is_bounded_and_ends_with_a_write() -> None:
    names = [done(n) for n in range(1, 9)] + [done(2, "clean").replace("02000_", "02100_"), done(4, "savepoint")]
    facts = Facts(timeline(*names[:-1]), keep=2)
    assert [one.time for one in leaving(facts, 3)] == [time_of(1), time_of(2)], "the clean goes with the next write"
    assert len(leaving(facts, 4)) == 4
    assert [one.time for one in leaving(facts, 500)][-1] == time_of(6)


def test_a_clean_behind_the_last_write_that_leaves_stays() -> None:
    clean = done(4, "clean").replace(f"{time_of(4)}_", f"{time_of(4)[:-3]}800_")
    assert going(with_files(clean)) == [time_of(n) for n in (1, 2, 3, 4)]


def test_a_timeline_that_is_short_enough_loses_nothing() -> None:
    assert going(replace(SIX, keep=6)) == []
    assert {one.why for one in verdicts(replace(SIX, keep=7))} == {"the policy keeps the newest 7 writes"}
