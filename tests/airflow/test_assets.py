"""Assets: each completed instant is an event of its table's asset; runs that make real events are in the DAGs' tests."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("result", "found"),
    [
        (
            {"app": "ingest", "instant": "1", "operation": "upsert", "rows_in": 3},
            [{"instant": "1", "action": "upsert", "rows": 3}],
        ),
        ({"app": "ingest", "instant": None, "operation": "upsert", "rows_in": 0}, []),
        ({"app": "compact", "instant": "2", "verdicts": [], "counts": {"planned": 2}}, []),
        (
            {"app": "compact", "instant": "2", "slices": 2, "rows": 9},
            [{"instant": "2", "action": "compaction", "rows": 9}],
        ),
        ({"app": "compact", "instant": "2", "slices": 0, "note": "it was completed before"}, []),
        (
            {"app": "cluster", "instant": "2", "groups": 2, "rows": 9},
            [{"instant": "2", "action": "clustering", "rows": 9}],
        ),
        (
            {"app": "resize", "instant": "2", "groups": 2, "rows": 9},
            [{"instant": "2", "action": "resize", "rows": 9}],
        ),
        ({"app": "cluster", "instant": "2", "groups": 0, "note": "it was completed before"}, []),
        ({"app": "clean", "instant": "2", "verdicts": [], "counts": {"planned": 2}}, []),
        ({"app": "clean", "instant": "2", "deleted": 3, "note": ""}, [{"instant": "2", "action": "clean", "rows": 0}]),
        ({"app": "clean", "instant": "2", "deleted": 0, "note": "it was completed before"}, []),
        (
            {"app": "recover", "rolled_back": [{"instant": "3", "rollback": "4"}]},
            [{"instant": "4", "action": "rollback", "rows": 0}],
        ),
        ({"app": "index", "instant": "5"}, []),
        ({"app": "verify"}, []),
    ],
)
def test_only_completed_instants_of_the_table_are_events(result: dict, found: list[dict]) -> None:
    from hudi_ops.plugins.hudi_ops_assets import events_of

    assert list(events_of(result)) == found
