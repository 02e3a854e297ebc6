"""Public methods refuse arguments of wrong types by name, before anything is read or written."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hudi_ops.config.requests import IngestRequest
from hudi_ops.config.tables_file import TableDeclaration, TableLocation, locate_table
from hudi_ops.config.zookeeper_settings import ZooKeeperSettings
from hudi_ops.engine import memory
from hudi_ops.engine.local import LocalEngine
from hudi_ops.errors import InvalidRequest
from hudi_ops.table.table import Table

WRONG: dict[str, tuple[Callable[[Table], Any], str, str]] = {
    "cancel": (lambda table: table.cancel(None), "instant cannot be None", "str"),
    "changes": (lambda table: table.changes(5), "since cannot be 5", "str | None"),
    "as of": (lambda table: table.read(as_of=5), "as_of cannot be 5", "str | None"),
    "a time": (lambda table: table.read(as_of=dt.datetime(2024, 1, 1)), "as_of cannot be datetime", "str | None"),
    "columns": (lambda table: table.read("id"), "columns cannot be 'id'", "Sequence[str] | None"),
    "a column": (lambda table: table.read(["id", 5]), "columns cannot be ['id', 5]", "Sequence[str] | None"),
    "a column of any iterable": (lambda table: table.read(iter([5])), "5 is not the name of a column", "names as text"),
    "a boolean": (lambda table: table.read(limit=True), "limit cannot be True", "int | None"),
    "too large": (lambda table: table.read(limit=10**23), "limit is above", "0 to 9223372036854775807"),
    "request": (
        lambda table: table.indexing.run(["record_index"]),
        "is no IndexRequest",
        "IndexRequest, or its fields",
    ),
    "another request": (lambda table: table.archive.run({"keep_min": 5}), "request cannot be", "ArchiveRequest | None"),
    "several": (lambda table: table.repair("a", 5), "findings cannot be 5", "str"),
    "seconds": (lambda table: table.holds("2024", seconds="1h"), "seconds cannot be '1h'", "float"),
    "path": (lambda table: Table.open(5), "path cannot be 5", "str | PathLike[str]"),
    "schema": (lambda table: Table.create("x", name="x", record_key="id", schema=5), "schema cannot be 5", "Schema"),
    "engine": (lambda table: table.ingest([], engine=5), "engine cannot be 5", "Literal['auto', 'local', 'spark']"),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return Table.create(tmp_path_factory.mktemp("typed") / "t", name="t", record_key="id", schema="id string, n int")


@pytest.mark.parametrize("name", WRONG)
def test_an_argument_of_a_wrong_type_is_refused_by_name(table: Table, name: str) -> None:
    call, what, expected = WRONG[name]
    with pytest.raises(InvalidRequest) as caught:
        call(table)
    assert what in caught.value.what
    assert expected in caught.value.expected
    assert caught.value.next_step


def test_every_parameter_of_the_public_methods_is_checked(table: Table) -> None:
    """`object()` is a value of no type; what `merged` checks and protocols are left out here."""
    apis = [
        table,
        table.compaction,
        table.clean,
        table.archive,
        table.indexing,
        table.metadata,
        table.savepoints,
        table.holds,
    ]
    untold = ("Any", "Q |", "LockProvider", "Engine |")
    seen = 0
    for api in apis:
        for name, method in inspect.getmembers(api, inspect.ismethod):
            for one in (
                () if name.startswith("_") and name != "__call__" else inspect.signature(method).parameters.values()
            ):
                if one.kind not in {one.VAR_POSITIONAL, one.VAR_KEYWORD} and not str(one.annotation).startswith(untold):
                    with pytest.raises(InvalidRequest, match=one.name):
                        method(**{one.name: object()})
                    seen += 1
    assert seen > 60


def test_iterables_and_numbers_of_other_libraries_are_taken(table: Table, tmp_path: Path) -> None:
    assert table.read({"id": 1, "n": 2}.keys(), limit=np.int64(5)).column_names == ["id", "n"]
    assert table.read(meta_columns=np.bool_(False)).num_columns == 2
    assert table.indexing.costs("files")


def test_paths_may_be_path_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "RUN_BYTES_MIN", 1)
    (landing := tmp_path / "landing").mkdir()
    (file := landing / "a.csv").write_text("id,n\na,1\n")
    made = Table.create(
        tmp_path / "p",
        name="p",
        record_key="id",
        partition_by=["n"],
        schema=file,
        engine=LocalEngine(1, memory_bytes=4, spill_folder=tmp_path),
    )
    assert [info.name for info in made.preview_folder(landing).files] == ["a.csv"]
    assert made.ingest_folder(landing).files == 1
    file.write_text("id,n\na,1\nb,2\n")
    for again in (Path("a.csv"), [Path("a.csv")]):
        assert made.preview_folder(landing, retake=again).retaken == {"a.csv"}
    assert made.ingest_files(IngestRequest(source=landing, retake=[Path("a.csv")])).inserted == 1
    assert made.clean.explain(files=[Path("n=1")]) is not None
    assert made.delete_partition(Path("n=1")).instant
    assert made.delete_partition([Path("n=2")]).instant
    located = locate_table(tmp_path / "p")
    assert (located.name, located.path) == ("p", str(tmp_path / "p"))
    assert TableDeclaration(path=landing, source=landing, record_key=["id"]).source == str(landing)
    assert TableLocation(name="p", path=landing, lock=None, declaration=None).path == str(landing)
    assert ZooKeeperSettings(tls=True, tls_ca=file).tls_ca == str(file)
    for wrong in (5, b"landing"):
        with pytest.raises(InvalidRequest, match="folder cannot be"):
            made.ingest_folder(wrong)  # type: ignore[arg-type]
