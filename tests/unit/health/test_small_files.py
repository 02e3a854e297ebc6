"""The check `small_files`: what it says, that its commands mend the table, and how slices are packed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import TypeAdapter

from hudi_ops.health.check import NotHere
from hudi_ops.health.checks.small_files import CHECK, SmallFilesFacts
from hudi_ops.services.clustering.packing import pack
from hudi_ops.table.table import Table
from tests.bounds import examples
from tests.unit.health.added_calls import added_calls
from tests.unit.health.bench import facts_of, judged, looked, mend, value_of
from tests.unit.health.states_read_cost import batch, table_at
from tests.unit.health.states_small_files import small_files_missed


def test_a_clustering_mends_small_files(tmp_path: Path) -> None:
    path = small_files_missed(tmp_path)
    found = judged(path, CHECK)
    assert value_of(found, "share") == 8 / 9
    assert found.note == "1 more small files cannot be merged within their partitions"
    assert ["smallest of 4 small files" in one.detail for one in found.evidence] == [True, True]
    assert Table.open(path).clustering.explain().measures == {"small_files.share": 8 / 9}
    assert added_calls(path, CHECK) == []
    stored = TypeAdapter(SmallFilesFacts).dump_json(facts := facts_of(path, CHECK))
    assert TypeAdapter(SmallFilesFacts).validate_json(stored) == facts
    mend(path, found)
    assert value_of(judged(path, CHECK), "share") == 0


def test_a_compaction_that_holds_small_files_is_executed_first(tmp_path: Path) -> None:
    table = table_at(tmp_path / "t", table_type="mor", index="bloom")
    for low in (0, 20):
        table.ingest(batch(low, low + 20), operation="bulk_insert")
    table.ingest(batch(0, 40, 2))
    assert table.compaction.plan().instant is not None
    found = judged(tmp_path / "t", CHECK)
    assert found.commands == (("compact", "TABLE", "execute"), ("cluster", "TABLE"))
    mend(tmp_path / "t", found)
    assert value_of(judged(tmp_path / "t", CHECK), "share") == 0


@pytest.mark.parametrize("engine", ["simple", "consistent"])
def test_files_of_buckets_cannot_be_merged(engine: str, tmp_path: Path) -> None:
    table = table_at(tmp_path / "t", table_type="mor", index="bucket", bucket_engine=engine, buckets=4)
    table.ingest(batch(0, 40))
    assert isinstance(CHECK.measure(looked(tmp_path / "t")), NotHere)
    if engine == "simple":
        assert table.clustering.explain(sort_by=("v",)).measures == {}


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=8), max_size=5),
    st.integers(1, 20),
    st.sampled_from([1, 3, 7, 1 << 70]),
)
def test_packs_are_filled_one_after_the_other(partitions: list[list[int]], group_bytes: int, target_bytes: int) -> None:
    expected: list[list[int]] = []
    for sizes in partitions:
        used = group_bytes + 1
        for size in sizes:
            if used + size > group_bytes:
                expected.append([])
                used = 0
            expected[-1].append(size)
            used += size
    numbers = np.repeat(np.arange(len(partitions)), list(map(len, partitions)))
    flat = [size for sizes in partitions for size in sizes]
    packs = pack(numbers, np.array(flat, np.int64), group_bytes, target_bytes)
    assert [flat[low : low + count] for low, count in zip(packs.starts, packs.counts, strict=True)] == expected
    assert packs.outputs.tolist() == [max(1, -(-sum(sizes) // target_bytes)) for sizes in expected]
