"""Plans of compactions and clusterings of ours are what Apache Hudi writes, field by field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudi_ops.formats.avro import container as avro
from hudi_ops.timeline.content.plan_bytes import encode_clustering, encode_compaction, group_metrics, slice_metrics
from hudi_ops.timeline.content.plans import CompactionPlan, PlannedSlice, ReplacePlan, decode_plan

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
    made = slice_metrics(None, 1, 10)
    assert (made["TOTAL_IO_READ_MB"], made["TOTAL_IO_WRITE_MB"], made["TOTAL_IO_MB"]) == (0.0, 120.0, 120.0)


CLUSTERED = [
    "v9_bucket_consistent_pending_resize",
    "v9_bucket_consistent_resized",
    "v9_mor_pending_compaction_clustering",
    "v9_txns_nonpart_nometa_mor",
    "v9_txns_simple_meta_cow",
    "v9_txns_simple_meta_mor",
]


@pytest.fixture(params=CLUSTERED)
def clusterings(request: pytest.FixtureRequest, hudi_fixtures: Callable[[str], Path]) -> tuple[Path, list[bytes]]:
    """The table's folder, and the clustering plans that Apache Hudi wrote in it."""
    folder = hudi_fixtures(request.param)
    found = sorted((folder / ".hoodie/timeline").glob("[0-9]*.clustering.requested"))
    assert found
    return folder, [path.read_bytes() for path in found]


def test_real_clustering_plan_keeps_every_field(clusterings: tuple[Path, list[bytes]]) -> None:
    for data in clusterings[1]:
        real = avro.read_one(data, "plan")
        prefix = _folder_of(real)
        plan = decode_plan("clustering", data)
        assert isinstance(plan, ReplacePlan)
        groups = tuple(
            replace(group, slices=tuple(_at(prefix, slice_) for slice_ in group.slices)) for group in plan.groups
        )
        encoded = encode_clustering(replace(plan, groups=groups))
        mine = avro.read_one(encoded, "plan")
        assert mine == real
        assert list(mine["clusteringPlan"]) == list(real["clusteringPlan"])
        assert encoded == encode_clustering(replace(plan, groups=groups))


def _folder_of(plan: dict[str, Any]) -> str:
    """Return the table's root in the URIs of a plan."""
    slice_ = plan["clusteringPlan"]["inputGroups"][0]["slices"][0]
    file, partition = slice_["dataFilePath"] or slice_["deltaFilePaths"][0], slice_["partitionPath"]
    return str(file.rpartition("/")[0].removesuffix(f"/{partition}") if partition else file.rpartition("/")[0])


def _at(root: str, slice_: PlannedSlice) -> PlannedSlice:
    """Return a slice whose names are URIs again."""
    folder = f"{root}/{slice_.partition_path}".rstrip("/")
    base = f"{folder}/{slice_.base_file}" if slice_.base_file else ""
    return replace(slice_, base_file=base, log_files=tuple(f"{folder}/{name}" for name in slice_.log_files))


def test_metrics_of_a_group_are_those_that_apache_hudi_computes(clusterings: tuple[Path, list[bytes]]) -> None:
    folder, plans = clusterings
    for data in plans:
        plan = decode_plan("clustering", data)
        assert isinstance(plan, ReplacePlan)
        for group in plan.groups:
            sizes = []
            for one in group.slices:
                place = folder / one.partition_path
                base = (place / one.base_file).stat().st_size if one.base_file else None
                sizes.append((base, [(place / name).stat().st_size for name in one.log_files]))
            # The writers of tables with log files only were told to write base files of 2,000 bytes.
            assert group_metrics(sizes, 2000) == dict(group.metrics)
