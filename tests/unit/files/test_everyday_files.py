"""Files as other programs write them: each is taken with its values, or refused with file, line, column and value."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.errors import HudiOpsError, InvalidRequest, Unsupported
from hudi_ops.sources.source import read_runs
from hudi_ops.storage.open import open_storage
from hudi_ops.table.table import Table

FAR = [dt.datetime(2024, 5, 1), dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1), None]
KEYS = ["a", "b", "c", "d"]
MAPPED = "id string, tags map<string, string>, at map<string, timestamp>, in struct<m: map<string, map<string, int>>>"


def table_of(folder: Path, schema: Any) -> Table:
    return Table.create(folder / "t", name="t", record_key="id", schema=schema)


def refused(table: Table, file: Path, text: str | None = None, **keywords: Any) -> InvalidRequest:
    """The error of a file; nothing is written."""
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidRequest) as caught:
        table.ingest_file(file, **keywords)
    assert file.name in caught.value.what
    return caught.value


def test_int96_times_of_every_year_are_taken_at_microseconds(tmp_path: Path) -> None:
    times = pa.array(FAR, pa.timestamp("us"))
    nested = pa.StructArray.from_arrays([times], ["at"])
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": KEYS, "at": times, "in": nested}), file, use_deprecated_int96_timestamps=True)
    table = table_of(tmp_path, file)
    table.ingest_file(file)
    rows = table.read().sort_by("id")
    assert [value and value.replace(tzinfo=None) for value in rows["at"].to_pylist()] == FAR
    assert rows["in"].combine_chunks().field("at").cast(pa.timestamp("us")).to_pylist() == FAR


@pytest.mark.parametrize("evolve", [False, True])
def test_maps_are_taken_from_objects_of_json(tmp_path: Path, evolve: bool) -> None:
    table = table_of(tmp_path, MAPPED)
    odd = {'"q"': "a\\", "": "{,:}", "é": None}
    rows = [
        {"id": "a"},
        {"id": "b", "tags": odd, "at": {"x": "2024-05-01T00:00:00Z"}, "in": {"m": {"p": {"q": 1}, "r": None, "s": {}}}},
        {"id": "c", "tags": {}, "in": {"m": None}},
    ]
    (tmp_path / "a.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    table.ingest_file(tmp_path / "a.json", evolve=evolve)
    found = table.read().sort_by("id").to_pylist()
    assert [row["tags"] for row in found] == [None, list(odd.items()), []]
    assert found[1]["at"] == [("x", dt.datetime(2024, 5, 1, tzinfo=dt.UTC))]
    assert found[1]["in"] == {"m": [("p", [("q", 1)]), ("r", None), ("s", [])]}
    assert refused(table, tmp_path / "b.json", '{"id":"d","tags":{"k":"v","k":"w"}}').details["field"] == "tags.key"
    assert refused(table, tmp_path / "c.json", '{"id":"d"}\n{"id":"e","tags":{"k":1}}').details["line"] == 2


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_an_empty_file_waits_until_it_is_filled(tmp_path: Path, ending: str) -> None:
    table = table_of(tmp_path, "id string, n bigint")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"b.{ending}").touch()
    result = table.ingest_folder(str(tmp_path / "in"))
    assert f"1 file skipped: b.{ending} (empty)" in result.note
    assert "(empty)" in table.ingest_file(tmp_path / "in" / f"b.{ending}").note
    rows = pa.table({"id": ["b"], "n": [2]})
    if ending == "parquet":
        pq.write_table(rows, tmp_path / "in" / "b.parquet")
    else:
        (tmp_path / "in" / f"b.{ending}").write_text("id,n\nb,2\n" if ending == "csv" else '{"id":"b","n":2}\n')
    table.ingest_folder(str(tmp_path / "in"))
    assert table.read().to_pylist() == rows.to_pylist()


def test_a_file_that_was_emptied_after_it_was_taken_is_named_and_blocks_nothing(tmp_path: Path) -> None:
    table, folder = table_of(tmp_path, "id string, n bigint"), tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("id,n\na,1\n")
    table.ingest_folder(folder)
    (folder / "a.csv").write_text("")
    says = "1 file skipped: a.csv (empty, and was not when it was taken: its rows stay)"
    assert says in table.ingest_folder(folder).note
    assert says in table.ingest_folder(folder, retake=["a.csv"]).note
    assert says in table.ingest_file(folder / "a.csv").note
    (folder / "b.csv").write_text("id,n\nb,2\n")
    assert says in table.ingest_folder(folder).note
    assert table.read().sort_by("id")["id"].to_pylist() == ["a", "b"]
    (folder / "a.csv").write_text("id,n\nc,3\n")
    with pytest.raises(InvalidRequest, match=r"a\.csv changed after it was taken"):
        table.ingest_folder(folder)
    assert table.ingest_folder(folder, retake=["a.csv"]).files == 1


@pytest.mark.parametrize(
    ("values", "kind", "found"),
    [
        (['""', "3", ""], "string", ["", "3", None]),
        (["0x00FF", "0X0A10"], "string", ["0x00FF", "0X0A10"]),
        (["2024-01-01T00:00:00.123456789"], "string", ["2024-01-01T00:00:00.123456789"]),
        (["12", "", "-7"], "int64", [12, None, -7]),
        (["x", ""], "string", ["x", None]),
    ],
)
def test_what_create_infers_from_csv_an_ingest_of_it_takes(
    tmp_path: Path, values: list[str], kind: str, found: list[Any]
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(
        "id,v\n" + "\n".join(f'"k{at}",{value}' for at, value in enumerate(values))
    )  # the last line has no end
    table = table_of(tmp_path, file)
    assert str(table.schema.field("v").type) == kind
    table.ingest_file(file)
    assert table.read().sort_by("id")["v"].to_pylist() == found


@pytest.mark.parametrize("size", [2, 200_000], ids=["at once", "a zero and an x in two reads"])
def test_hexadecimal_is_no_whole_number(tmp_path: Path, size: int) -> None:
    table = table_of(tmp_path, "id string, note string, n bigint")
    pads = "".join(f"k{at},0xff,{at}\n" for at in range(size))
    error = refused(table, tmp_path / "a.csv", f"id,note,n\n{pads}x,0xff, 0x10\n")
    assert (error.details["line"], error.details["field"], error.found) == (size + 2, "n", "0x10")


PAD = [f'{{"id":"{at}","pad":"{"x" * 60}","n":{at}}}' for at in range(30_000)]
_BAD_LINES = [
    ('{"id":5}', "column id cannot take 5", "id", "5"),
    ('{"id":"a","n":"x"}', 'column n cannot take "x"', "n", '"x"'),
    ('{"id":"a","n":1.50}', "column n cannot take 1.50", "n", "1.50"),
    ('{"id":"a","n":99999999999}', "column n cannot take 99999999999", "n", "99999999999"),
    ('{"id":"a","colour":"red"}', "the table has no column colour", "colour", '"red"'),
    ('{"id":"a","in":{"x":{}}}', "the table has no column in.x", "in.x", "{}"),
    ('{"id":"a","in":{"k":[]}}', "column in.k cannot take []", "in.k", "[]"),
    ('{"id":"a","price":"1.257"}', "column price cannot take", "price", '"1.257"'),
    ('{"id":"a","day":"2024-02-30"}', "column day does not fit", "day", '"2024-02-30"'),
    ('{"id":"a","small":1e300}', "column small holds a number that is too large", "small", "1e300"),
    ('{"id":"a","n":1,"n":2}', "the line names field n twice", "n", ""),
    ('{"id":"a"', "the line is not JSON", None, '{"id":"a"'),
    ("[1]", "the line is a list, not an object", None, "[1]"),
    ('{"n":1}', "the record key is null", "id", "null"),
]


@pytest.mark.parametrize("evolve", [False, True])
def test_errors_of_json_name_line_column_and_value(tmp_path: Path, evolve: bool) -> None:
    table = table_of(
        tmp_path, "id string, pad string, n int, price decimal(10, 2), day date, small float, in struct<k: int>"
    )
    for number, (bad, what, field, found) in enumerate(_BAD_LINES):
        if evolve and "no column" in what:
            continue
        lines = [*PAD[:29000], "", bad, *PAD[29000:]] if number < 2 else [*PAD[:3], "", bad]
        error = refused(table, tmp_path / f"{number}.json", "\n".join(lines), evolve=evolve)
        assert (what in error.what, error.details["line"]) == (True, lines.index(bad) + 1), str(error)
        assert error.details.get("field") == field
        assert error.found == found or field is None


def test_values_of_several_types_in_a_new_column_are_refused_with_their_line(tmp_path: Path) -> None:
    text = '{"id":"a","new":1,"in":{"x":[null]}}\n\n{"id":"b","new":null,"in":{"x":[1,"y"]}}\n'
    error = refused(table_of(tmp_path, "id string"), tmp_path / "a.json", text, evolve=True)
    with pytest.raises(InvalidRequest) as caught:
        Table.create(tmp_path / "u", name="u", record_key="id", schema=tmp_path / "a.json")
    for one in (error, caught.value):
        assert (one.details["line"], one.details["field"], one.found) == (3, "in.x[]", '"y"')


@pytest.mark.parametrize("count", [1, 30_000], ids=["few", "several blocks"])
@pytest.mark.parametrize("evolve", [False, True])
def test_a_json_object_over_several_lines_is_named_by_the_line_where_it_begins(
    tmp_path: Path, evolve: bool, count: int
) -> None:
    table = table_of(tmp_path, "id string, d date, n int")
    several = ("", "goes over several lines", None, '{"id":"0",')
    fine = "".join(f'{{"id":"{at}",\n "n": null,\n "d":"2024-01-01"}}\n\n' for at in range(count))
    for bad, said, field, found in (
        ('{"id":"b",\n"n":"x"}', 'column n cannot take "x"', "n", '"x"'),
        ('{"id":"b",\n"d":"2024"}', "column d does not fit", "d", '"2024"') if count == 1 else several,
        ('{"id":"b",\n"n":1', "the line is not JSON", None, '{"id":"b",'),
        ('[\n{"id":"b"}]', "the line is a list", None, "["),
    ):
        error = refused(table, tmp_path / "a.json", f"{fine}{bad}\n", evolve=evolve)
        assert (said in error.what, error.details["line"]) == (True, 4 * count + 1 if bad else 1), str(error)
        assert (error.details.get("field"), error.found[: len(found)]) == (field, found)


@pytest.mark.parametrize(
    ("bad", "what", "field", "found"),
    [
        ("x,oops,,", "column n cannot take 'oops'", "n", "oops"),
        ("x,1,2024-13-01 00:00:00,", "column at does not fit", "at", "2024-13-01 00:00:00"),
        ("x,1,,1e300", "column small holds a number that is too large", "small", "1e300"),
        (",1,,", "the record key is null", "id", ""),
        ("x,1", "the line has 2 values", None, ""),
        ('"x"y,1,,', "text follows the closing quote", None, ""),
    ],
)
def test_errors_of_csv_name_line_column_and_value(
    tmp_path: Path, bad: str, what: str, field: str | None, found: str
) -> None:
    table = table_of(tmp_path, "id string, n int, at timestamp, small float")
    lines = ["id,n,at,small", '"a\n\nb",1,,', "", bad, "z,2,,"]
    error = refused(table, tmp_path / "a.csv", "\n".join(lines))
    assert (what in error.what, error.details["line"]) == (True, 6), str(error)
    assert (error.details.get("field"), error.found) in {(field, found), (field, "null")}


_BAD_VALUES = {
    "decimal(5, 2)": ["1.234", "1234.5", "12345.678", "1e40", "1e-40", "1e99999999999", '""', " ", "x", "9" * 80],
    "int": ["0x1F", '""', "1.0", "9999999999"],
    "boolean": ["2", '""'],
    "date": ["2024-02-30", '""'],
    "double": ["x", '""'],
}


@pytest.mark.parametrize("kind", _BAD_VALUES)
@pytest.mark.parametrize("quoted", [False, True], ids=["plain", "quoted"])
def test_every_csv_value_that_a_type_does_not_take_is_named(tmp_path: Path, kind: str, quoted: bool) -> None:
    table = table_of(tmp_path, f"id string, v {kind}, note string")
    for value in _BAD_VALUES[kind]:
        written = f'"{value}"' if quoted and '"' not in value else value
        text = f'id,v,note\nk,,""\n\n"a\nb",{written},""\nz,,\n'
        error = refused(table, tmp_path / "a.csv", text)
        found = value.strip('" ')
        assert "line 5: column v cannot take" in error.what or "line 5: column v does not fit" in error.what
        assert (error.details["line"], error.details["field"], error.found[:60]) == (5, "v", found[:60])
        assert kind in error.expected


def test_a_csv_value_far_behind_is_named_as_one_at_the_start(tmp_path: Path) -> None:
    table = table_of(tmp_path, "id string, v decimal(5, 2)")
    rows = [f"{at}{'x' * 600},{at % 9}.50" for at in range(30_000)]
    rows[-2] = "last,1.234"
    error = refused(table, tmp_path / "a.csv", "\n".join(["id,v", *rows]))
    assert (error.details["line"], error.details["field"], error.found) == (30_000, "v", "1.234")


@pytest.mark.parametrize("value", ["1234.5", "1e4", "-12345"])
def test_a_decimal_with_more_digits_than_its_type_is_refused_at_any_depth(tmp_path: Path, value: str) -> None:
    """The readers of Arrow count its digits before they append zeros."""
    table = table_of(tmp_path, "id string, v decimal(5, 2), l array<struct<x: decimal(5, 2)>>")
    for number, line in enumerate((f'"v":{value}', f'"v":"{value}"', f'"l":[{{"x":1}},{{"x":"{value}"}}]')):
        error = refused(table, tmp_path / f"{number}.json", f'{{"id":"a","v":1.5}}\n{{"id":"b",{line}}}\n')
        assert (error.details["line"], error.details["field"]) == (2, line[1])
        assert value in error.found


def test_bytes_that_are_no_text_are_told_with_line_and_column(tmp_path: Path) -> None:
    table = table_of(tmp_path, "id string, n int, price decimal(5, 2), at timestamp")
    for bad, field in ((b"\xff,,,", "id"), (b"a,\xff,,", "n"), (b"a,,\xff1,", "price"), (b"a,,,\xff", "at")):
        (tmp_path / "a.csv").write_bytes(b"id,n,price,at\nk,1,1,\n" + bad + b"\n")
        with pytest.raises(InvalidRequest) as sampled:
            Table.create(tmp_path / "u", name="u", record_key="id", schema=tmp_path / "a.csv")
        for error in (refused(table, tmp_path / "a.csv"), sampled.value):
            assert (f"column {field} holds bytes that are not UTF-8" in error.what, error.details["line"]) == (True, 3)
    (tmp_path / "a.json").write_bytes(b'{"id":"a"}\n{"id":"\xff"}\n{"id":"b","n":"x"}\n')
    error = refused(table, tmp_path / "a.json")
    assert ("column id holds bytes" in error.what, error.details["line"], error.details["field"]) == (True, 2, "id")


def test_csv_columns_without_a_type_do_not_decide_whether_a_file_is_read(tmp_path: Path) -> None:
    """Arrow infers their types from the first block, and refuses a later value of another one."""
    table = table_of(tmp_path, "id string")
    for name, ends in (("_hoodie_record_key", None), ("extra", "the table has no column extra")):
        lines = [f"id,{name}", *(f"{at}{'x' * 60},{at}" for at in range(30_000)), "last,text"]
        (tmp_path / "a.csv").write_text("\n".join(lines))
        if ends is None:
            table.ingest_file(tmp_path / "a.csv")
        else:
            (tmp_path / "a.csv").rename(tmp_path / "b.csv")
            error = refused(table, tmp_path / "b.csv")
            assert (ends in error.what, error.details["field"], "--evolve" in error.next_step) == (True, "extra", True)


def test_errors_of_parquet_name_row_column_and_value(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["a", "b", "c"], "n": [1, 2, 2**40]}), file, row_group_size=1)
    storage, schema = open_storage(str(tmp_path)), pa.schema([("id", pa.string()), ("n", pa.int32())])
    with pytest.raises(InvalidRequest, match=r"a\.parquet, row 2: column n does not fit") as caught:
        list(read_runs(storage, storage.list()[0], schema, schema.names))
    assert (caught.value.details["row"], caught.value.found) == (2, str(2**40))


def test_a_damaged_page_of_parquet_is_told_with_its_column_and_row_group(tmp_path: Path) -> None:
    rows = pa.table({"id": [f"k{at}" for at in range(400)], "v": [f"{at * 7919}" for at in range(400)]})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=200, use_dictionary=False, compression="snappy")
    body = bytearray((tmp_path / "a.parquet").read_bytes())
    at = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(1).column(1).data_page_offset
    body[at + 30 : at + 60] = b"\xff" * 30
    (tmp_path / "a.parquet").write_bytes(body)
    error = refused(table_of(tmp_path, rows.schema), tmp_path / "a.parquet")
    assert "column v cannot be parsed, in row 200 or later" in error.what
    assert error.details["field"] == "v"


def test_files_that_show_no_rows_or_too_many_levels_are_refused_by_name(tmp_path: Path) -> None:
    table = table_of(tmp_path, "id string")
    deep = {depth: '{"id":"a","x":' + "[" * depth + "]" * depth + "}\n" for depth in (29, 40, 200, 100_000)}
    assert "blanks only" in refused(table, tmp_path / "a.csv", "\n\n").what
    for text, said in (
        (" \n \n", "blanks only"),
        (deep[200], "no column x"),
        (deep[100_000], "not JSON that can be read"),
    ):
        assert said in refused(table, tmp_path / "a.json", text).what
    for depth in (40, 200, 100_000):
        error = refused(table, tmp_path / "a.json", '{"id":"b"}\n' + deep[depth], evolve=True)
        assert (error.details["line"], "more than 30 levels" in error.what) == (2, True)
    for text in (" \n \n", deep[40], deep[100_000]):
        (tmp_path / "b.json").write_text(text)
        with pytest.raises(InvalidRequest, match=r"b\.json"):
            Table.create(tmp_path / "u", name="u", record_key="id", schema=tmp_path / "b.json")
    inner = pa.int32()
    for _ in range(40):
        inner = pa.struct([("x", inner)])
    with pytest.raises(Unsupported, match="more than 30 levels"):
        Table.create(tmp_path / "u", name="u", record_key="id", schema=pa.schema([("id", pa.string()), ("x", inner)]))
    assert not (tmp_path / "u").exists()


@pytest.mark.parametrize("evolve", [False, True])
def test_types_of_parquet_that_tables_lack_are_taken_as_others(tmp_path: Path, evolve: bool) -> None:
    uuids = [UUID(int=2**100 + 7), None]
    stored = pa.array([one and one.bytes for one in uuids], pa.binary(16))
    rows = pa.table({
        "id": ["a", "b"],
        "u": pa.ExtensionArray.from_storage(pa.uuid(), stored),
        "j": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None])),
        "big": pa.array([2**64 - 1, None], pa.uint64()),
        "none": pa.nulls(2),
        "in": pa.array([{"none": None, "b": 1}, None], pa.struct([("none", pa.null()), ("b", pa.int32())])),
    })
    file = tmp_path / "a.parquet"
    pq.write_table(rows, file)
    table = table_of(tmp_path, "id string" if evolve else file)
    assert ("none, in" in table.note) is not evolve
    table.ingest_file(file, evolve=evolve)
    assert table.read().sort_by("id").to_pylist() == [
        {"id": "a", "u": str(uuids[0]), "j": '{"a": 1}', "big": Decimal(2**64 - 1), "in": {"b": 1}},
        {"id": "b", "u": None, "j": None, "big": None, "in": None},
    ]


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.duration("ms")])
def test_a_type_without_counterpart_is_refused_with_the_cast(tmp_path: Path, kind: pa.DataType) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["a"], "at": pa.array([1], pa.int64()).cast(kind)}), file)
    table = table_of(tmp_path, "id string, at bigint")
    for go in (
        lambda: Table.create(tmp_path / "u", name="u", record_key="id", schema=file),
        lambda: table.ingest_file(file),
    ):
        with pytest.raises(HudiOpsError, match="cast the") as caught:
            go()
        assert "int64" in caught.value.next_step


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_base_files_with_int96_times_are_read_and_merged_at_microseconds(tmp_path: Path, table_type: str) -> None:
    rows = pa.table({"id": KEYS, "at": pa.array(FAR, pa.timestamp("us", "UTC"))})
    table = Table.create(
        tmp_path / "t", name="t", record_key="id", schema=rows.schema, table_type=table_type, metadata=False
    )
    table.ingest(rows)
    (file,) = (tmp_path / "t").glob("*.parquet")
    content = pq.ParquetFile(file)
    read, notes = content.read(), content.metadata.metadata
    with pq.ParquetWriter(file, read.schema, store_schema=False, use_deprecated_int96_timestamps=True) as writer:
        writer.write_table(read)
        writer.add_key_value_metadata(notes)
    assert table.read().sort_by("id").equals(rows)
    table.ingest(rows.slice(0, 1))
    assert table.read().sort_by("id").equals(rows)
    assert table.read(where="at > TIMESTAMP '9000-01-01 00:00:00'")["id"].to_pylist() == ["b"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("null", "line 1: the line is null"),
        ("\n null\n", "line 2: the line is null"),
        ('\ufeffnull\n{"id": "a"}', "line 1: the line is null"),
        ('{"id": "a"}\nnull\n', "line 2: the line is null"),
    ],
)
def test_a_null_in_place_of_an_object_is_refused_before_it_ends_the_process(
    tmp_path: Path, lines: str, said: str
) -> None:
    """Arrow's reader crashes on a block that begins with one."""
    error = refused(table_of(tmp_path, "id string"), tmp_path / "a.json", lines)
    assert said in error.what
    with pytest.raises(HudiOpsError):
        Table.create(tmp_path / "sampled", name="t", record_key="id", schema=tmp_path / "a.json")


def test_a_null_within_an_object_of_several_lines_is_taken(tmp_path: Path) -> None:
    table, file = table_of(tmp_path, "id string, n int, l array<int>"), tmp_path / "a.json"
    file.write_text('{"id": "a", "n":\n null,\n"l": [\nnull,\n null]}\n')
    table.ingest_file(file)
    assert table.read().to_pylist() == [{"id": "a", "n": None, "l": [None, None]}]
