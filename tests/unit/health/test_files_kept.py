"""The check `files_kept`: old files that savepoints, holds and plans keep beyond the policy."""

from __future__ import annotations

from pathlib import Path

from hudi_ops.config.requests.targets import HealthTargets
from hudi_ops.health.check import TABLE
from hudi_ops.health.checks import clean_lag
from hudi_ops.health.checks.files_kept import CHECK, FilesKeptFacts
from hudi_ops.table.table import Table
from tests.unit.health.bench import facts_of, judged, mend, value_of
from tests.unit.health.kept_tables import kept_table
from tests.unit.health.states_files_kept import files_kept_missed


def test_what_keeps_most_is_ended_until_the_target_is_met(tmp_path: Path) -> None:
    path = files_kept_missed(tmp_path)
    missed = judged(path, CHECK)
    assert missed.is_missed
    assert {one.kind for one in missed.evidence} == {"savepoint", "hold", "instant"}
    assert [words[:2] for words in missed.commands] == [("savepoint", "delete")] * 2
    assert Table.open(path).clean.explain().measures["files_kept.share"] == value_of(missed, "share")
    lag = value_of(judged(path, clean_lag.CHECK), "share")
    mend(path, missed)
    mended = judged(path, CHECK)
    assert not mended.is_missed
    assert mended.measures[0].value != 0.0
    now = value_of(judged(path, clean_lag.CHECK), "share")
    assert lag is not None
    assert now is not None
    assert now > lag, "a clean deletes the files now"
    # A lower target asks for the end of the plan and of the hold, too, which keep the same files.
    strict = HealthTargets(files_kept={"share": 0.0})
    missed = judged(path, CHECK, strict)
    assert sorted(words[0] for words in missed.commands) == ["compact", "hold"]
    mend(path, missed)
    assert judged(path, CHECK, strict).measures[0].value == 0.0


def test_bytes_that_are_left_fall_to_zero_with_the_last_keeper(tmp_path: Path) -> None:
    facts = facts_of(files_kept_missed(tmp_path), CHECK)
    assert isinstance(facts, FilesKeptFacts)
    left = [facts.kept.bytes, *(one.left for one in facts.kept.keepers)]
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0
    assert len(left) == 5


def test_nothing_is_kept_where_nothing_is_old(tmp_path: Path) -> None:
    table = kept_table(tmp_path)
    instant = table.write(0, 1)
    table.table().savepoints.create(instant)
    table.table().holds.take(instant, seconds=600)
    fresh = judged(table.path, CHECK)
    assert (fresh.measures[0].value, fresh.evidence, fresh.is_missed) == (0.0, (), False)


def test_a_pending_write_that_keeps_files_is_undone(tmp_path: Path) -> None:
    silent, dead = kept_table(tmp_path, "silent"), kept_table(tmp_path, "dead")
    first = silent.write(0)
    dead.write(0)
    dead.begin()
    for table in (silent, dead):
        for _ in range(8):
            table.write(0)
    pending = silent.put_pending(first)
    for table, words in ((silent, ("rollback", TABLE, pending, "--abandoned")), (dead, ("recover", TABLE))):
        missed = judged(table.path, CHECK)
        assert missed.commands == (words,)
        mend(table.path, missed)
        assert judged(table.path, CHECK).measures[0].value == 0.0
