"""Avro blocks against fastavro: any schema, any rows, both ways; and any bytes at all."""

from __future__ import annotations

import json
from decimal import Context, localcontext

import pyarrow as pa
from hypothesis import given, strategies as st

from hudi_ops.errors import Corrupt, Unsupported
from hudi_ops.formats.avro.rows import AvroRows, encode_rows
from tests.property.avro_schemas import content_of, raw, schemas_and_rows

PATH = "p=a/.f-0_1.log.1_0-0-0"


@given(schemas_and_rows())
def test_reads_what_fastavro_writes_and_writes_it_again(given_rows):
    avro, rows = given_rows
    content = content_of(avro, rows)
    schema = json.dumps(avro)
    found = AvroRows(content, schema, PATH)
    table = found.table()
    table.validate(full=True)
    assert table.schema == found.schema
    with localcontext(Context(prec=100)):
        columns = [raw(table.column(at).combine_chunks(), field["type"]) for at, field in enumerate(avro["fields"])]
    names = [field["name"] for field in avro["fields"]]
    assert [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] == rows
    assert encode_rows(table, schema) == content


@given(schemas_and_rows(), st.data())
def test_some_columns_are_read_alike(given_rows, data):
    avro, rows = given_rows
    found = AvroRows(content_of(avro, rows), json.dumps(avro), PATH)
    wanted = data.draw(st.lists(st.sampled_from([*found.schema.names, "another"]), unique=True))
    table = found.table(wanted)
    assert table.num_rows == len(rows)
    assert table == found.table().select([name for name in wanted if name != "another"])
    batches = list(found.batches(3))
    assert [batch.num_rows for batch in batches[:-1]] == [3] * (len(batches) - 1)
    assert pa.Table.from_batches(batches, found.schema) == found.table()


@given(schemas_and_rows(), st.data())
def test_damaged_bytes_give_rows_or_one_error(given_rows, data):
    avro, rows = given_rows
    content = bytearray(content_of(avro, rows))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)) | st.just(len(content)))
    found: Corrupt | Unsupported | None = None
    try:
        AvroRows(bytes(content[:cut]), json.dumps(avro), PATH).table().validate(full=True)
    except (Corrupt, Unsupported) as error:
        found = error
    assert found is None or PATH in str(found)
    assert not isinstance(found, Unsupported) or "version" in found.found
