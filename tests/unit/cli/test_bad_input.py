"""Bad input: one clear error that names file, field or row, the exit code of its class, and a table byte for byte as it was.

Method: every call runs against a real table whose whole tree, `.hoodie` included, is hashed before and after.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

HEAD = "id,city,ts,fare,day,paid,token\n"


def refused(answer: Any, code: int, *says: str) -> None:
    """One error of that class on the error output, nothing else anywhere, with all of the words."""
    kind = {2: "InvalidRequest", 3: "Unsupported", 20: "Corrupt"}[code]
    assert (answer.code, answer.json["error"], answer.json["exit_code"], answer.err) == (code, kind, code, ""), answer
    assert [word for word in says if word not in answer.json["message"]] == [], answer.json["message"]


@pytest.fixture
def plain_trips(home: Path, call: Callable[..., Any], rows: Callable[..., Any]) -> Path:
    """As `trips`, without the column that CSV has no text for."""
    flat = rows("a@Oslo", "b@Oslo", "c@Rome").drop_columns(["tags"])
    pq.write_table(flat, home / "landing" / "first.parquet")
    assert call("create", "trips", "--like", home / "landing" / "first.parquet").code == 0
    assert call("ingest", "trips").code == 0
    return home / "tables" / "trips"


@pytest.fixture
def ingest_refused(
    plain_trips: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> Callable[..., None]:
    """Land one file and ingest it: refused with these words, and nothing changed."""

    def check(
        name: str, body: bytes | str | pa.Table, *says: str, options: tuple[str, ...] = (), code: int = 2
    ) -> None:
        file = home / "landing" / name
        if isinstance(body, pa.Table):
            pq.write_table(body, file)
        else:
            file.write_bytes(body if isinstance(body, bytes) else body.encode())
        before = tree(home)
        refused(call("ingest", "trips", *options, "--json"), code, *says)
        assert tree(home) == before

    return check


@pytest.fixture
def flat(rows: Callable[..., Any]) -> pa.Table:
    """Two good rows, x and y."""
    return rows("x@Oslo", "y@Rome").drop_columns(["tags"])


def put(table: pa.Table, field: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    """The table with other values in one column."""
    at = table.schema.get_field_index(field)
    return table.set_column(at, field, pa.array(values, kind or table.schema.field(field).type))


def test_a_null_key(ingest_refused: Callable[..., None], flat: pa.Table) -> None:
    ingest_refused("bad.parquet", put(flat, "id", ["x", None]), "bad.parquet", "id", "Row 1", "null")


def test_an_empty_key_in_a_csv_is_null(ingest_refused: Callable[..., None]) -> None:
    ingest_refused("bad.csv", HEAD + "x,Oslo,1,,,,\n,Oslo,1,,,,\n", "bad.csv", "id", "line 3")


def test_a_missing_key_column(ingest_refused: Callable[..., None], flat: pa.Table) -> None:
    ingest_refused("bad.parquet", flat.drop_columns(["id"]), "bad.parquet", "id")


def test_a_delete_needs_the_key_too(ingest_refused: Callable[..., None], flat: pa.Table) -> None:
    ingest_refused("bad.parquet", flat.select(["city"]), "bad.parquet", "id", options=("--operation=delete",))


def test_a_missing_column(ingest_refused: Callable[..., None], flat: pa.Table) -> None:
    ingest_refused("bad.parquet", flat.drop_columns(["fare"]), "bad.parquet", "fare")


def test_a_column_that_the_table_does_not_have(ingest_refused: Callable[..., None], flat: pa.Table) -> None:
    ingest_refused("bad.parquet", flat.append_column("tip", pa.array([1, 2])), "bad.parquet", "tip")
    ingest_refused("bad.csv", HEAD.replace("\n", ",tip\n") + "x,Oslo,1,,,,,1\n", "tip")


def test_a_column_twice(ingest_refused: Callable[..., None]) -> None:
    ingest_refused("bad.csv", HEAD.replace("\n", ",ts\n") + "x,Oslo,1,,,,,1\n", "bad.csv", "twice")


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("ts", "soon", pa.string()),
        ("ts", 1.5, pa.float64()),
        ("day", 20_000, pa.int64()),
        ("paid", "a lot", pa.string()),
        ("fare", [1.0], pa.list_(pa.float64())),
    ],
)
def test_a_type_that_does_not_fit(
    ingest_refused: Callable[..., None], flat: pa.Table, field: str, value: Any, kind: pa.DataType
) -> None:
    bad = put(flat, field, [value, value], kind)
    ingest_refused("bad.parquet", bad, "bad.parquet", field)


def test_text_in_a_number_of_a_csv(ingest_refused: Callable[..., None]) -> None:
    ingest_refused("bad.csv", HEAD + "x,Oslo,soon,,,,\n", "bad.csv", "soon", "ts")


def test_text_in_a_number_of_json(ingest_refused: Callable[..., None]) -> None:
    ingest_refused("bad.json", '{"id":"x","city":"Oslo","ts":"soon"}\n', "bad.json", "ts")


def test_a_value_that_is_no_folder(ingest_refused: Callable[..., None], flat: pa.Table) -> None:
    ingest_refused("bad.parquet", put(flat, "city", ["Oslo", "x" * 300]), "bad.parquet", "city", "255", "Row 1")


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("bad.parquet", b"PAR1 this is none PAR1"),
        ("bad.csv", HEAD + "x,Oslo,1,,,,\ny,Rome\n"),
        ("bad.csv", b"\xff\xfe\x00\x01"),
        ("bad.csv.gz", b"not gzip"),
        ("bad.csv.gz", gzip.compress((HEAD + "x,Oslo,1,,,,\n" * 99).encode(), mtime=0)[:40]),
        ("bad.json", '{"id": "x", "city": \n'),
        ("bad.jsonl", b"\x00\x01\x02"),
    ],
)
def test_a_file_that_cannot_be_parsed(ingest_refused: Callable[..., None], name: str, body: bytes | str) -> None:
    ingest_refused(name, body, name)


def test_a_cut_parquet_file(ingest_refused: Callable[..., None], flat: pa.Table, tmp_path: Path) -> None:
    pq.write_table(flat, tmp_path / "whole.parquet")
    body = (tmp_path / "whole.parquet").read_bytes()
    ingest_refused("cut.parquet", body[: len(body) // 2], "cut.parquet")
    ingest_refused("holed.parquet", body[:8] + b"\x00" * 64 + body[72:], "parquet")


def test_one_bad_file_keeps_the_good_ones_out(
    ingest_refused: Callable[..., None], flat: pa.Table, home: Path, call: Callable[..., Any]
) -> None:
    pq.write_table(flat, home / "landing" / "a-good.parquet")
    ingest_refused("bad.parquet", put(flat, "id", [None, "y"]), "bad.parquet", "Row 0")
    (home / "landing" / "bad.parquet").unlink()
    assert call("ingest", "trips", "--json").json["inserted"] == 2


def test_a_taken_file_that_changed(
    plain_trips: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any], flat: pa.Table
) -> None:
    pq.write_table(flat, home / "landing" / "first.parquet")
    before = tree(home)
    refused(call("ingest", "trips", "--json"), 2, "first.parquet", "changed")
    refused(call("ingest", "trips", "--dry-run", "--json"), 2, "first.parquet", "changed")
    assert tree(home) == before


def test_an_insert_of_a_key_that_is_there(ingest_refused: Callable[..., None], rows: Callable[..., Any]) -> None:
    known = rows("a@Oslo", "z@Oslo").drop_columns(["tags"])
    ingest_refused("known.parquet", known, "key a", options=("--operation=insert",))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("ingest", "trips", "--operation=merge"), ("merge", "upsert")),
        (("ingest", "trips", "--engine=flink"), ("flink", "local")),
        (("ingest", "trips", "--engine=flink", "--dry-run"), ("flink", "local")),
        (("ingest", "trips", "--operation=insert_overwrite_table", "--max-files=1"), ("max_files", "replace")),
        (("ingest", "trips", "--operation=insert_overwrite_table", "--max-bytes=1MB", "--dry-run"), ("max_bytes",)),
        (("ingest", "trips", "--operation=insert", "--retake=first.parquet"), ("again", "upsert")),
        (("ingest", "trips", "--retake=never.parquet"), ("never.parquet", "no such file")),
        (("ingest", "trips", "--min-age=soon"), ("--min-age", "soon")),
        (("ingest", "trips", "--source=nowhere"), ("nowhere",)),
        (("ingest", "trips", "--source=nowhere", "--dry-run"), ("nowhere",)),
        (("ingest", "trps"), ("trps", "Did you mean 'trips'")),
        (("read", "trips", "--columns=id,nope"), ("nope", "city")),
        (("read", "trips", "--where=nope = 1"), ("nope",)),
        (("read", "trips", "--where=id ="), ("id =",)),
        (("read", "trips", "--where=ts = 'soon'"), ("ts",)),
        (("read", "trips", "--where=id > 5"), ("id",)),
        (("read", "trips", "--where=ts"), ("ts",)),
        (("read", "trips", "--where=upper(id) = 'A'"), ("UPPER",)),
        (("read", "trips", "--as-of=yesterday"), ("yesterday",)),
        (("read", "trips", "--as-of=2001-01-01"), ("2001",)),
        (("read", "trips", "--limit=-1"), ("-1",)),
        (("read", "trips", "--columns=id,"), ("--columns",)),
    ],
)
def test_a_request_that_cannot_be(
    plain_trips: Path,
    home: Path,
    call: Callable[..., Any],
    tree: Callable[..., Any],
    arguments: tuple[str, ...],
    says: tuple[str, ...],
) -> None:
    before = tree(home)
    refused(call(*arguments, "--json"), 2, *says)
    assert tree(home) == before


@pytest.mark.parametrize("command", [("read",), ("ingest", "--source=landing"), ("timeline",), ("show",), ("verify",)])
def test_a_path_that_is_no_table(
    home: Path, call: Callable[..., Any], tree: Callable[..., Any], command: tuple[str, ...]
) -> None:
    (home / "landing" / "rows.csv").write_text("id\n1\n")
    before = tree(home)
    for path in ("landing", "./gone", "riders", "landing/rows.csv", "file:///gone"):
        refused(call(command[0], path, *command[1:], "--json"), 2, path.strip("./").removeprefix("file:///"))
    assert tree(home) == before


UNWRITABLE = {
    "v6_nonpartitioned_mor": (3, "version is 6"),
    "v6_trips_8i1u_mor": (3, "version is 6"),
    "v8_simplekeygen_nonhivestyle_cow": (2, "does not store its index"),
    "v9_txns_simple_meta_cow": (3, "secondary index"),
    "v9_async_index": (2, "does not store its index"),
}


@pytest.mark.parametrize("operation", ["upsert", "insert", "delete"])
@pytest.mark.parametrize("fixture", UNWRITABLE)
def test_a_table_that_cannot_be_written(
    hudi_fixtures: Callable[[str], Path],
    home: Path,
    call: Callable[..., Any],
    tree: Callable[..., Any],
    fixture: str,
    operation: str,
) -> None:
    table = hudi_fixtures(fixture)
    (home / "landing" / "rows.csv").write_text("id\n1\n")
    before = tree(table)
    for dry_run in ((), ("--dry-run",)):
        call_of = ("ingest", table, "--source=landing", f"--operation={operation}", *dry_run, "--json")
        refused(call(*call_of), *UNWRITABLE[fixture])
    assert tree(table) == before


def test_a_metadata_table_that_came_later_is_respected(
    trips: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any], rows: Callable[..., Any]
) -> None:
    with (trips / ".hoodie" / "hoodie.properties").open("a") as properties:
        properties.write("hoodie.table.metadata.partitions=column_stats,files,expr_index_ts\n")
    pq.write_table(rows("z@Oslo"), home / "landing" / "second.parquet")
    before = tree(home)
    for options in ((), ("--dry-run",)):
        refused(call("ingest", "trips", *options, "--json"), 3, "metadata table", "expr_index_ts")
    assert tree(home) == before


def test_a_rule_of_merging_that_is_not_known(
    hudi_fixtures: Callable[[str], Path], tmp_path: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    table = Path(shutil.copytree(hudi_fixtures("v9_mor_parquet_log"), tmp_path / "table"))
    properties = table / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("EVENT_TIME_ORDERING", "CUSTOM"))
    before = tree(table)
    refused(call("read", table, "--json"), 3, "log files", "CUSTOM", "read_optimized")
    assert call("read", table, "--query", "read_optimized", "--json").code == 0
    refused(call("read", table, "--query", "newest", "--json"), 2, "newest", "snapshot or read_optimized")
    assert tree(table) == before


def test_a_version_of_the_future(trips: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]) -> None:
    properties = trips / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.version=9", "hoodie.table.version=10"))
    before = tree(home)
    for command in (("ingest", "trips"), ("read", "trips"), ("show", "trips"), ("timeline", "trips")):
        refused(call(*command, "--json"), 3, "version 10")
    assert tree(home) == before


def test_a_broken_properties_file(trips: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]) -> None:
    properties = trips / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.name=trips", "hoodie.table.name=tripz"))
    before = tree(home)
    for command in (("ingest", "trips"), ("read", "trips")):
        refused(call(*command, "--json"), 20, "hoodie.properties", "checksum")
    assert tree(home) == before


def test_a_source_file_that_may_not_be_read(
    plain_trips: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    # A link to nothing: as unreadable for an administrator, for whom no permission is missing, as for anybody.
    (home / "landing" / "bad.csv").symlink_to(home / "gone.csv")
    before = tree(plain_trips)
    answer = call("ingest", "trips", "--json")
    assert answer.code != 70, answer
    assert tree(plain_trips) == before
