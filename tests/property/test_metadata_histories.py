"""Whatever happens to a table, its metadata table says what its files say, to the letter; also between its own compactions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from hudi_ops.config.table import TableType
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.testing.clock import ManualClock
from tests.bounds import examples
from tests.definitions import create_table
from tests.property.metadata_history import PARTITIONS, do
from tests.protocol.metadata_table import faults_of, read_rows, table_of
from tests.tables import DEFINITION, START_MS

KEYS = st.integers(0, 11)
REBUILT = [
    *(("build", ["record_index"]), *[("upsert", [(key, 0, False)]) for key in (0, 0, 11)], ("drop", ["record_index"])),
    *(("drop", ["record_index"]), ("build", ["files", "column_stats", "record_index"]), ("delete_partition", None)),
    ("upsert", [(0, 0, False)]),
]
"""An index that is built anew begins below the completion of the last write to the dropped one, whose logs are gone."""

BATCHES = st.lists(
    st.tuples(KEYS, st.integers(0, 99), st.booleans()), min_size=1, max_size=6, unique_by=lambda one: one[0]
)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["upsert", "upsert", "upsert", "insert_overwrite", "delete"]), BATCHES),
    st.tuples(st.just("build"), st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3, unique=True)),
    st.tuples(st.just("drop"), st.sampled_from([None, ["record_index"], ["bloom_filters"]])),
    st.tuples(st.sampled_from(["compact", "delete_partition", "compact_metadata"]), st.none()),
)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@example(steps=REBUILT, after=1)
@given(steps=st.lists(STEPS, min_size=4, max_size=12), after=st.sampled_from([1, 2, 3]))
def test_the_metadata_table_says_what_the_files_say(table_type: TableType, steps, after: int) -> None:
    clock = ManualClock(START_MS, tick_ms=1)
    storage = MemoryStorage("histories", clock)
    table = table_of(storage, clock, "writer", after)
    create_table(table._session, replace(DEFINITION, table_type=table_type, metadata=True))
    model: dict[str, int] = {}
    for number, step in enumerate([("upsert", [(key, key, False) for key in range(6)]), *steps], 1):
        do(table, model, step, number)
        clock.advance_ms(400_000 if number % 3 == 0 else 1_000)
    assert read_rows(storage, clock) == model
    assert faults_of(storage, clock) == []
