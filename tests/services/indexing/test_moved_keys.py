"""Keys that a build takes for new or gone, in file groups that change in several rounds."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from hudi_ops.engine.local import LocalEngine
from hudi_ops.metadata.definitions import statistics_of
from hudi_ops.services.indexing.filling.diff import diff, snapshot
from hudi_ops.services.indexing.filling.tasks import FactReader
from hudi_ops.testing.clock import ManualClock
from hudi_ops.view.schema import table_schema
from tests.tables import DEFINITION, NOW_MS, made, rows, table_of


def test_a_key_in_two_rows_of_a_file_group_stays_until_both_are_gone() -> None:
    storage = made(replace(DEFINITION, buckets=1))
    table = table_of(storage, ManualClock(NOW_MS, tick_ms=1), "writer")
    table.ingest(rows(("k0", "p0", 1, 1, None), ("k0", "p0", 2, 1, None), ("k1", "p0", 1, 1, None)), "bulk_insert")
    session = table._session
    state = session.loader.load()
    schema = table_schema(state.config, state.timeline, session.commits)
    reader = FactReader(
        session,
        state,
        LocalEngine(),
        SimpleNamespace(check=lambda: None, stop=None),  # type: ignore[arg-type]
        lambda progress: None,
        schema,
        {"record_index": ""},
        statistics_of(schema, state.config, {}),
    )
    seen = snapshot(session, state)
    (at,) = reader.located(list(seen.slices.values()))
    assert sorted(at.keys.to_pylist()) == ["k0", "k1"]

    found = []
    for change in (
        rows(("k1", "p0", 5, 2, None), ("k2", "p0", 5, 2, None)),
        rows(("k1", "p0", 6, 3, None)),
        rows(("k2", "p0", 7, 4, True)),
        rows(("k0", "p0", 7, 5, True)),
    ):
        table.ingest(change)
        now = snapshot(session, session.loader.load(), seen)
        moved = reader.moved(diff(seen, now).slices)
        found.append((sorted(key for one in moved.keys for key in one.keys.to_pylist()), moved.gone.to_pylist()))
        if len(found) == 2:
            assert reader.doubled_keys() == 0, "both rows are in one file group"
        seen = now
    assert found == [(["k2"], []), ([], []), ([], ["k2"]), ([], ["k0"])]
