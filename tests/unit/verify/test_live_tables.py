"""Writers at work are no damage: a write that lands at any moment of a verification leaves nothing to be found."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st

from hudi_ops.concurrency.markers import FOLDER as MARKER_FOLDER
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.table.table import Table
from hudi_ops.testing.clock import ManualClock
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from hudi_ops.view.cleaned_files import files_of_cleans, paths_of_cleans
from tests.bounds import bound, examples
from tests.protocol.metadata_table import make_table, table_of
from tests.tables import DEFINITION, NOW_MS, WITH_METADATA, rows
from tests.unit.verify.conftest import context, rows_of


def write(storage: MemoryStorage) -> None:
    """Write new keys too, and a folder that was not there: everything that a write can change."""
    Table(context(storage)).ingest(rows_of(5, 90, 9))


class Interrupted:
    """A storage on which a whole move lands just before the given call; calls are counted from 1.

    A move may return another storage, which takes the place of this one. `listed` has the folders that were listed, by call.
    """

    def __init__(self, inner: MemoryStorage, at: int, move: Callable[[MemoryStorage], Any] = write) -> None:
        self._inner = inner
        self._at = at
        self._move = move
        self.listed: list[tuple[int, str]] = []
        self.calls = 0

    def __getattr__(self, name: str):
        if not callable(method := getattr(self._inner, name)):
            return method

        def called(*arguments, **keywords):
            self.calls += 1
            if name == "list_folder":
                self.listed.append((self.calls, *arguments))
            if self.calls == self._at:
                self._inner = self._move(self._inner) or self._inner
            return getattr(self._inner, name)(*arguments, **keywords)

        return called


def test_a_write_between_any_two_reads_of_a_verification(ours):
    counter = Interrupted(ours.copy(), at=0)
    verify_table(counter, deep=True)
    assert counter.calls > 30
    for at in range(1, counter.calls + 1):
        busy = Interrupted(ours.copy(), at)
        report = verify_table(busy, deep=True)
        assert report.findings == (), f"a write before call {at}: {report.findings[0]}"
        assert busy.calls >= at


def test_a_clean_between_any_two_reads_of_a_verification_of_indexes():
    """The metadata table is read after the files were listed, and lacks those that the clean deleted in between."""
    clock = ManualClock(NOW_MS + 86_400_000, tick_ms=1)
    storage = make_table(WITH_METADATA).copy(clock)
    for number in range(20, 24):
        table_of(storage, clock, "writer").ingest(
            rows(("k0", "p0", number, number, None), ("k1", "p1", number, number, None))
        )

    def clean(held: MemoryStorage) -> None:
        assert table_of(held, clock, "cleaner").clean.run(retain=1, policy="versions").deleted >= 8

    counter = Interrupted(storage.copy(clock), at=0)
    assert verify_table(counter, deep=True, index=True, clock=clock).findings == ()
    for at in range(1, counter.calls + 1, bound(12, 6, 1)):
        report = verify_table(Interrupted(storage.copy(clock), at, clean), deep=True, index=True, clock=clock)
        assert report.findings == (), f"a clean before call {at}: {report.findings[0]}"


def test_markers_that_a_rollback_deletes_after_they_were_listed(ours):
    ours.put(f"{MARKER_FOLDER}/20240101000000000/x/a.parquet.marker.CREATE", b"")
    counter = Interrupted(ours.copy(), at=0)
    assert [one.invariant for one in verify_table(counter).findings] == ["markers-unknown"]
    looked_at = max(call for call, folder in counter.listed if folder == MARKER_FOLDER)
    found_at = []
    for at in range(1, counter.calls + 1):
        busy = Interrupted(
            ours.copy(), at, lambda held: held.delete_all([each.path for each in held.list(MARKER_FOLDER)])
        )
        found_at += [at for _ in verify_table(busy).findings]
    assert found_at == list(range(looked_at + 1, counter.calls + 1))


@pytest.mark.parametrize("half", ["requested", "both"])
def test_a_writer_that_has_just_begun(ours, half):
    from hudi_ops.commit.session import Session
    from hudi_ops.concurrency.attempt import begin

    session = Session(context(ours))
    attempt = begin(session.ctx, session.loader, "commit")
    if half == "requested":
        ours.delete(f".hoodie/timeline/{attempt.instant}.inflight")
    assert verify_table(ours, deep=True).findings == ()


class Recorded:
    """A storage that keeps its state before each change, as other processes see it."""

    def __init__(self, inner: MemoryStorage) -> None:
        self._inner = inner
        self.states: list[MemoryStorage] = []

    def __getattr__(self, name: str):
        if name.startswith(("put", "delete")):
            self.states.append(self._inner.copy())
        return getattr(self._inner, name)


def planned(table: Table) -> str:
    """Plan a clustering, and return its instant."""
    instant = table.clustering.plan(sort_by="id", rewrite=True).instant
    assert instant is not None
    return instant


def clean_often(table: Table) -> None:
    """Clean after each of some writes, so that an archive takes the first of the cleans."""
    for number in range(40, 44):
        table.ingest(rows(("k0", "p0", number, number, None)))
        table.clean.run(retain=1, policy="versions")


def archive(table: Table) -> None:
    """Archive all but two writes."""
    assert table.archive.run(keep_min=2, keep_max=3).instants


BATCH = rows(("k0", "p0", 7, 30, None), ("k9", "p4", 9, 30, None))
ACTIONS: dict[str, tuple[Callable[[Table], object], Callable[[Table, object], object]]] = {
    "write": (lambda table: None, lambda table, _: table.ingest(BATCH)),
    "clustering": (planned, lambda table, instant: table.clustering.execute(instant=str(instant), engine="local")),
    "cancel": (planned, lambda table, instant: table.cancel(str(instant))),
    "index build": (lambda table: None, lambda table, _: table.indexing.run(partitions="record_index", engine="local")),
    "clean": (lambda table: None, lambda table, _: table.clean.run(retain=1, policy="versions")),
    "archive": (lambda table: clean_often(table), lambda table, _: archive(table)),
}
"""Name -> what happens before, and the action that a verification looks at."""


@cache
def states_of(action: str) -> tuple[list[MemoryStorage], MemoryStorage, ManualClock]:
    """Return the states of an action whose verification finds nothing, its last state, and the clock."""
    clock = ManualClock(NOW_MS + 86_400_000, tick_ms=1)
    # A metadata table that is not compacted lets no instant be archived.
    storage = make_table(DEFINITION if action == "archive" else WITH_METADATA).copy(clock)
    for number in range(20, 24):
        batch = rows(("k0", "p0", number, number, None), ("k1", "p1", number, number, None))
        table_of(storage, clock, "writer").ingest(batch)
    before, act = ACTIONS[action]
    prepared = before(table_of(storage, clock, "planner"))
    recorded = Recorded(storage)
    act(table_of(recorded, clock, "worker"), prepared)
    quiet = [state for state in recorded.states if not told(state, clock)]
    assert len(quiet) >= len(recorded.states) / 2, f"{action}: {len(quiet)} of {len(recorded.states)} states"
    return quiet, storage, clock


def told(storage: Any, clock: ManualClock) -> list[str]:
    """Return what a verification finds, clutter left out."""
    return [str(one) for one in verify_table(storage, clock=clock).findings if one.severity != "info"]


@settings(max_examples=examples(300, 5_000), deadline=None, phases=[Phase.generate])
@given(st.sampled_from(sorted(ACTIONS)), st.floats(0, 1), st.floats(0, 1))
def test_an_action_that_ends_during_a_verification(action: str, begun: float, ended: float) -> None:
    """The action stands at a drawn step when the verification begins, and ends before one of its reads."""
    states, last, clock = states_of(action)
    first = states[min(len(states) - 1, int(begun * len(states)))]
    counter = Interrupted(first.copy(), at=0)
    told(counter, clock)
    at = 1 + int(ended * counter.calls)
    busy = Interrupted(first.copy(), at, lambda _: last.copy())
    assert told(busy, clock) == [], f"{action} ended before call {at}"


def test_an_archive_between_any_two_reads_of_cleans():
    """No clean is missed that leaves the timeline while it is read."""
    clock = ManualClock(NOW_MS + 86_400_000, tick_ms=1)
    storage = make_table(DEFINITION).copy(clock)
    clean_often(table_of(storage, clock, "cleaner"))
    config = load_config(storage)
    counter = Interrupted(storage.copy(clock), at=0)
    all_paths = set(files_of_cleans(counter, config))
    assert len(all_paths) >= 4
    for at in range(1, counter.calls + 1):
        for read in (files_of_cleans, paths_of_cleans):
            busy = Interrupted(storage.copy(clock), at, lambda held: archive(table_of(held, clock, "archiver")))
            assert set(read(busy, config)) == all_paths, f"an archive before call {at}"
