"""Avro containers: one record, only the schema in the header, equal bytes for equal records, readable by others."""

from __future__ import annotations

import io
import json

import fastavro
import pytest

from hudi_ops.errors import Corrupt, Internal, Unsupported
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline import timeline_schemas as schemas

STAT = {"fileId": "f-0", "path": "p=a/f-0_1-0-1_2.parquet", "numWrites": 3, "fileSizeInBytes": 2**40}
COMMIT = {"partitionToWriteStats": {"p=a": [STAT]}, "extraMetadata": {"schema": "{}"}, "operationType": "UPSERT"}


def test_written_file_has_only_the_schema_in_its_header_and_others_read_it():
    data = avro.write_one(schemas.COMMIT_METADATA, COMMIT)
    reader = fastavro.reader(io.BytesIO(data))
    assert list(reader.metadata) == ["avro.schema"]
    (record,) = reader
    assert record == avro.read_one(data)
    assert record["partitionToWriteStats"]["p=a"][0]["fileSizeInBytes"] == 2**40


def test_missing_fields_take_the_default_and_none_stays_null():
    assert avro.read_one(avro.write_one(schemas.COMMIT_METADATA, {}))["version"] == 1
    record = avro.read_one(avro.write_one(schemas.COMMIT_METADATA, {"version": None}))
    assert record["version"] is None
    assert set(record) == {"partitionToWriteStats", "compacted", "extraMetadata", "version", "operationType"}


def test_equal_records_give_equal_bytes_and_others_do_not():
    one = avro.write_one(schemas.COMMIT_METADATA, COMMIT)
    assert one == avro.write_one(schemas.COMMIT_METADATA, COMMIT)
    other = avro.write_one(schemas.COMMIT_METADATA, {**COMMIT, "operationType": "INSERT"})
    assert one[-16:] != other[-16:]


@pytest.mark.parametrize(
    "record",
    [
        {"numWrites": 1},
        {"version": "one"},
        {"extraMetadata": {"a": 1}},
        {"partitionToWriteStats": {"": [{"logVersion": 2**40}]}},
    ],
)
def test_a_record_that_does_not_fit_is_our_own_mistake(record):
    with pytest.raises(Internal, match="HoodieCommitMetadata"):
        avro.write_one(schemas.COMMIT_METADATA, record)


def _container(codec: str, records: list[dict]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schemas.COMMIT_METADATA, records, codec=codec)
    return out.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_containers_of_other_writers_are_read(codec):
    assert avro.read_one(_container(codec, [COMMIT]))["operationType"] == "UPSERT"
    schema, records = avro.read_container(_container(codec, [COMMIT] * 3))
    assert schema["name"].endswith("HoodieCommitMetadata")
    assert len(records) == 3


@pytest.mark.parametrize("count", [0, 2])
def test_one_record_means_one(count):
    with pytest.raises(Corrupt, match=r"1\.commit"):
        avro.read_one(_container("null", [COMMIT] * count), "1.commit")


def test_a_foreign_codec_is_unsupported():
    with pytest.raises(Unsupported, match="bzip2"):
        avro.read_one(_container("bzip2", [COMMIT]))


@pytest.mark.parametrize("data", [b"", b"{}", json.dumps(COMMIT).encode(), b"Obj\x01", b"Obj\x01" + bytes(64)])
def test_other_content_is_corrupt(data):
    with pytest.raises(Corrupt, match=r"1\.commit"):
        avro.read_one(data, "1.commit")


def test_every_real_timeline_file_reads(hudi_fixtures, hudi_fixture_names):
    read = 0
    for name in hudi_fixture_names:
        for path in hudi_fixtures(name).rglob("*"):
            if path.is_file() and path.read_bytes()[:4] == b"Obj\x01":
                data = path.read_bytes()
                schema, records = avro.read_container(data, str(path))
                (expected,) = fastavro.reader(io.BytesIO(data))
                assert records == [expected]
                assert avro.read_one(avro.write_one(schema, expected)) == expected
                read += 1
    assert read == 373
