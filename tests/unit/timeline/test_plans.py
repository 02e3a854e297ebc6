"""Plans and results that Apache Hudi wrote, as typed values."""

from __future__ import annotations

import pytest

from hudi_ops.errors import Corrupt
from hudi_ops.storage.open import open_storage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.plans import (
    CleanPlan,
    CleanResult,
    CompactionPlan,
    IndexPlan,
    ReplacePlan,
    RollbackPlan,
    RolledBack,
    Savepoint,
    decode_plan,
    decode_result,
    read_plan,
    read_result,
)
from hudi_ops.timeline.settings.properties_file import load_config

CLEANED = "v9_cow_clean_savepoint_rollback_archive"
PENDING = "v9_mor_pending_compaction_clustering"


@pytest.fixture
def said(hudi_fixtures):
    """(plan, result) of the instant with a request time and completed action."""

    def read(name, time, kind):
        storage = open_storage(str(hudi_fixtures(name)))
        timeline = load_timeline(storage, load_config(storage))
        instant = timeline.find(time, kind)
        assert instant is not None
        return read_plan(storage, timeline, instant), read_result(storage, timeline, instant)

    return read


def test_pending_compaction(said):
    plan, result = said(PENDING, "20261121021202847", "commit")
    assert isinstance(plan, CompactionPlan)
    assert result is None
    (one,) = plan.slices
    assert one.partition_path == "p0"
    assert one.base_instant == "20261121021200131"
    assert one.base_file == f"{one.file_id}_0-249-278_20261121021200131.parquet"
    assert len(one.log_files) == 2


def test_pending_clustering_has_bare_names_though_the_file_holds_uris(said):
    plan, _ = said(PENDING, "20261121021202623", "replacecommit")
    assert isinstance(plan, ReplacePlan)
    assert plan.operation == "CLUSTER"
    (group,) = plan.groups
    (one,) = group.slices
    assert (group.outputs, group.metrics["TOTAL_LOG_FILES"]) == (1, 2.0)
    assert one.base_file == f"{one.file_id}_1-249-279_20261121021200131.parquet"
    assert "/" not in "".join(one.log_files)
    assert plan.strategy.endswith("ExecutionStrategy")


def test_overwrite_plans_nothing(said):
    plan, result = said("v9_txns_simple_meta_cow", "20260307162450901", "replacecommit")
    assert plan == ReplacePlan("", ())
    assert result is None


def test_clean(said):
    plan, result = said(CLEANED, "20261121021155939", "clean")
    assert isinstance(plan, CleanPlan)
    assert isinstance(result, CleanResult)
    assert plan.policy == "KEEP_LATEST_COMMITS"
    assert plan.earliest_retained == result.earliest_retained == "20261121021155158"
    assert plan.files == result.files
    assert plan.extra["savepointed_timestamps"] == "20261121021150717"
    assert sum(map(len, result.failed.values())) == 0


def test_rollback(said):
    plan, result = said(CLEANED, "20261121021158603", "rollback")
    assert isinstance(plan, RollbackPlan)
    assert isinstance(result, RolledBack)
    assert (plan.target, plan.target_action) == ("20261121021157423", "commit")
    assert result.targets == (plan.target,)
    assert plan.files == result.files
    assert all(name.endswith("_20261121021157423.parquet") for names in plan.files.values() for name in names)


def test_savepoint(said):
    plan, result = said(CLEANED, "20261121021150717", "savepoint")
    assert plan is None
    assert isinstance(result, Savepoint)
    assert (result.made_by, result.comments) == ("alice", "before the load")
    assert sorted(result.files) == ["p0", "p1"]


def test_index_build(said):
    plan, result = said("v9_async_index", "20261121023926868", "indexing")
    assert plan == result == IndexPlan((("record_index", "20261121023923804"),))


def test_json_is_understood_as_commits_of_layout_1_are(said):
    assert (
        decode_plan("compaction", b'{"operations": [{"fileId": "f", "deltaFilePaths": ["a/.f_1.log.1"]}]}') is not None
    )


def test_restore_round_trip():
    from hudi_ops.formats.avro import container as avro
    from hudi_ops.formats.timeline.service_schemas import RESTORE_PLAN

    record = {
        "instantsToRollback": [{"commitTime": "2", "action": "commit"}, {"commitTime": "1", "action": "commit"}],
        "savepointToRestoreTimestamp": "0",
    }
    plan = decode_plan("restore", avro.write_one(RESTORE_PLAN, record))
    assert plan is not None
    assert (plan.targets, plan.savepoint) == (("2", "1"), "0")  # type: ignore[union-attr]


def test_writes_have_neither():
    assert decode_plan("commit", b"anything") is None
    assert decode_result("commit", b"anything") is None


@pytest.mark.parametrize("data", [b"", b"Obj\x01", b"{", b'{"operations": 3}', b"{}"])
def test_broken_bytes_name_the_file(data):
    with pytest.raises(Corrupt, match="some/file"):
        decode_plan("compaction", data, "some/file")


def test_plan_of_another_action_is_refused(hudi_fixtures):
    path = hudi_fixtures(CLEANED) / ".hoodie/timeline/20261121021158603.rollback.requested"
    with pytest.raises(Corrupt):
        decode_plan("clean", path.read_bytes(), "a rollback's plan")
