"""Our schemas against the `avro.schema` headers of files that Apache Hudi wrote: names, order, types, defaults."""

from __future__ import annotations

import fastavro
import pyarrow.parquet as pq
import pytest

from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.avro.schema import to_arrow
from hudi_ops.formats.timeline import timeline_schemas as schemas

CONSTANTS = {getattr(schemas, name)["name"]: getattr(schemas, name) for name in schemas.__all__}
NOT_IN_FIXTURES = {"HoodieRestorePlan", "HoodieRestoreMetadata"}


def _shape(schema):
    """What Avro's resolution looks at; a `default` beside a type (not a field) is noise of Hudi's sources."""
    if isinstance(schema, list):
        return [_shape(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if "fields" in schema:
        fields = [
            {
                key: _shape(field[key]) if key == "type" else field[key]
                for key in ("name", "type", "default")
                if key in field
            }
            for field in schema["fields"]
        ]
        return {"record": schema["name"], "namespace": schema.get("namespace"), "fields": fields}
    return {key: _shape(value) for key, value in schema.items() if key not in ("default", "doc")}


def test_every_real_header_equals_our_constant(hudi_fixtures, hudi_fixture_names):
    seen: set[str] = set()
    for name in hudi_fixture_names:
        for path in hudi_fixtures(name).rglob("*"):
            if path.is_file() and path.read_bytes()[:4] == b"Obj\x01":
                schema, _ = avro.read_container(path.read_bytes(), str(path))
                assert _shape(schema) == _shape(CONSTANTS[schema["name"]]), path
                seen.add(schema["name"])
    assert seen == set(CONSTANTS) - NOT_IN_FIXTURES - {"HoodieLSMTimelineInstant"}


def test_archive_rows_have_our_schema(hudi_fixtures):
    history = hudi_fixtures("v9_cow_clean_savepoint_rollback_archive") / ".hoodie/timeline/history"
    (path,) = history.glob("*.parquet")
    file = pq.ParquetFile(path)
    text = file.metadata.metadata[b"parquet.avro.schema"].decode()
    assert to_arrow(text) == to_arrow(schemas.LSM_INSTANT)
    assert file.schema_arrow.remove_metadata() == to_arrow(schemas.LSM_INSTANT)


@pytest.mark.parametrize("name", sorted(CONSTANTS))
def test_each_is_valid_avro_in_hudis_namespace(name):
    assert fastavro.parse_schema(dict(CONSTANTS[name]))["name"] == f"org.apache.hudi.avro.model.{name}"


def test_restore_refers_to_the_instants_of_its_rollbacks_by_name():
    rollback = {
        "startRollbackTime": "1", "timeTakenInMillis": 1, "totalFilesDeleted": 0, "commitsRollback": ["1"],
        "partitionMetadata": {}, "instantsRollback": [{"commitTime": "1", "action": "commit"}],
    }  # fmt: skip
    record = {
        "startRestoreTime": "2", "timeTakenInMillis": 1, "instantsToRollback": ["1"],
        "hoodieRestoreMetadata": {"1": [rollback]}, "restoreInstantInfo": [{"commitTime": "1", "action": "commit"}],
    }  # fmt: skip
    again = avro.read_one(avro.write_one(schemas.RESTORE_METADATA, record))
    assert again["hoodieRestoreMetadata"]["1"][0]["commitsRollback"] == ["1"]
    assert again["restoreInstantInfo"] == record["restoreInstantInfo"]
    assert avro.read_one(avro.write_one(schemas.RESTORE_PLAN, {}))["version"] == 2
