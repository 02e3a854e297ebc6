"""Compaction plans of ours are what Apache Hudi writes, field by field."""

from __future__ import annotations

import pytest

from hudi_ops.formats.avro import container as avro
from hudi_ops.timeline.content.plan_bytes import encode_compaction, slice_metrics
from hudi_ops.timeline.content.plans import CompactionPlan, decode_plan

FIXTURES = [
    "v9_mor_pending_compaction_clustering",
    "v9_txns_nonpart_nometa_mor",
    "v9_txns_simple_meta_mor",
    "v8_trips_8i3u1d_mor",
]


@pytest.fixture(params=FIXTURES)
def written(request, hudi_fixtures):
    """The table's folder, and a compaction plan that Apache Hudi wrote in it."""
    folder = hudi_fixtures(request.param)
    (plan,) = (path for path in (folder / ".hoodie/timeline").glob("*.compaction.requested") if path.name[0] != ".")
    return folder, plan.read_bytes()


def test_a_real_plan_comes_out_as_it_was(written) -> None:
    _, data = written
    plan = decode_plan("compaction", data)
    assert isinstance(plan, CompactionPlan)
    mine, real = (avro.read_one(one, "plan") for one in (encode_compaction(plan), data))
    assert mine == real
    assert list(mine) == list(real)
    assert encode_compaction(plan) == encode_compaction(plan)


def test_the_metrics_are_those_that_apache_hudi_computes(written) -> None:
    folder, data = written
    plan = decode_plan("compaction", data)
    assert isinstance(plan, CompactionPlan)
    for one in plan.slices:
        place = folder / one.partition_path
        logs = [(place / name).stat().st_size for name in one.log_files]
        made = slice_metrics((place / one.base_file).stat().st_size, len(logs), sum(logs), 0)
        assert made == dict(one.metrics)


def test_megabytes_are_cut_and_a_slice_without_a_base_file_writes_a_whole_one() -> None:
    mb = 1024 * 1024
    assert slice_metrics(5 * mb - 1, 2, mb, 0) == {
        "TOTAL_LOG_FILES": 2.0,
        "TOTAL_LOG_FILES_SIZE": float(mb),
        "TOTAL_IO_READ_MB": 5.0,
        "TOTAL_IO_WRITE_MB": 4.0,
        "TOTAL_IO_MB": 9.0,
    }
    made = slice_metrics(None, 1, 10, 120 * mb)
    assert (made["TOTAL_IO_READ_MB"], made["TOTAL_IO_WRITE_MB"], made["TOTAL_IO_MB"]) == (0.0, 120.0, 120.0)
