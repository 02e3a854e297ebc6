"""The database ends at each statement of each call: nothing half-written is left, and the next call succeeds.

A statement fails with an error of the driver, or the server ends the connection, or the whole server is killed and started again.
What is then in the database is what was there before, or what the call writes. Tables on storage stay as they are, to the byte.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import OperationalError

from hudi_ops.errors import Unavailable
from hudi_ops.registry import best_effort
from hudi_ops.registry.database import opened
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.recording import (
    forget,
    record_look,
    record_runs,
    record_table,
    record_verdict,
)
from hudi_ops.registry.refresh import load_before, load_look, rebuild, refresh
from hudi_ops.registry.rows import Found, TimelineRuns
from hudi_ops.registry.store import list_tables, names_of, runs_of, table_named
from tests.bounds import bound
from tests.postgres import Postgres
from tests.unit.cli.conftest import tree_of
from tests.unit.registry.on_disk import declared, located, made
from tests.unit.registry.told import NOW_MS, content, key, picture, told_run, verdict, without

Call = Callable[[Engine], Any]

LATER_MS = NOW_MS + 60_000

CALLS: dict[str, Call] = {
    "record_runs": lambda engine: record_runs(engine, key(), [told_run(5), told_run(6)], ends="process-1"),
    "record_table": lambda engine: record_table(engine, key(), {"type": "cow"}, LATER_MS),
    "record_look": lambda engine: record_look(engine, LOOK),
    "record_look of another table there": lambda engine: record_look(engine, replace(LOOK, key=key(table_id="two"))),
    "record_look anew": lambda engine: record_look(engine, LOOK, anew=True),
    "forget": lambda engine: forget(engine, ["trips"]),
}
LOOK = Found(
    key(),
    verdict(4, LATER_MS),
    {"a": 1},
    picture(LATER_MS),
    TimelineRuns(
        [told_run(7)], frozenset(), told_run(0).instant, frozenset({told_run(0).instant}), {"1": told_run(7).instant}
    ),
)

READERS: dict[str, Call] = {
    "list_tables": list_tables,
    "table_named": lambda engine: table_named(engine, "trips"),
    "runs_of": lambda engine: runs_of(engine, 1),
    "names_of": names_of,
    "load_before": lambda engine: load_before(engine, ["trips"]),
    "load_look": lambda engine: load_look(engine, 1),
}


def prepare(engine: Engine) -> None:
    """What each call finds."""
    forget(engine, ["trips"])
    record_verdict(engine, key(), verdict(0))
    record_runs(engine, key(), [told_run(0), told_run(1, key="process-1", instant="")])


def ends_connection(engine: Engine, server: Postgres | None) -> Callable[[Connection], None]:
    """End the connection of a statement as its database can: PostgreSQL's server ends it, SQLite's file cannot be read."""

    def end(connection: Connection) -> None:
        if server is None:
            raise OperationalError("", {}, Exception("disk I/O error"))
        driver: Any = connection.connection.dbapi_connection
        server.run(f"SELECT pg_terminate_backend({driver.info.backend_pid}, 5000)")

    return end


@pytest.fixture
def server(engine: Engine, request: pytest.FixtureRequest) -> Postgres | None:
    """The server of the registry; None: it is a file."""
    return request.getfixturevalue("postgres") if engine.dialect.name == "postgresql" else None


class At:
    """Ends the database at one statement, or at the commit, of what is called within."""

    def __init__(self, engine: Engine, number: int, end: Callable[[Connection], None]) -> None:
        self.engine, self.left, self.end, self.has_ended = engine, number, end, False

    def __enter__(self) -> At:
        event.listen(self.engine, "before_cursor_execute", self._statement)
        event.listen(self.engine, "commit", self._next)
        return self

    def __exit__(self, *_: object) -> None:
        event.remove(self.engine, "before_cursor_execute", self._statement)
        event.remove(self.engine, "commit", self._next)

    def _statement(self, connection: Connection, *_: object) -> None:
        self._next(connection)

    def _next(self, connection: Connection) -> None:
        self.left -= 1
        if self.left == -1:
            self.has_ended = True
            self.end(connection)


@pytest.mark.parametrize("name", CALLS)
def test_the_database_ends_at_each_statement_of_each_call(engine: Engine, server: Postgres | None, name: str) -> None:
    call, end, points = CALLS[name], ends_connection(engine, server), 0
    prepare(engine)
    before = content(engine)
    call(engine)
    after = content(engine)
    while True:
        prepare(engine)
        with At(engine, points, end) as at:
            if not_ended := call_unless_ended(call, engine):
                assert not at.has_ended
                break
        assert content(engine) in (before, after), f"at statement {points}"
        call(engine)
        assert content(engine) == after, f"after statement {points}"
        points += 1
    assert points >= (1 if name == "forget" else 3), not_ended


@pytest.mark.parametrize("name", READERS)
def test_a_reader_whose_database_ends_says_so_and_reads_again(
    engine: Engine, server: Postgres | None, name: str
) -> None:
    prepare(engine)
    call, end, points = READERS[name], ends_connection(engine, server), 0
    expected = call(engine)
    while True:
        with At(engine, points, end) as at:
            try:
                found = call(engine)
            except Unavailable:
                found = None
        if not at.has_ended:
            break
        assert found is None
        assert call(engine) == expected
        points += 1
    assert points >= 1


def call_unless_ended(call: Call, engine: Engine) -> bool:
    """Call, and return whether it succeeded; the only error is that the database does not answer."""
    try:
        call(engine)
    except Unavailable:
        return False
    return True


@pytest.mark.full("kills PostgreSQL")
def test_a_killed_server_loses_no_whole_row_and_goes_on(postgres: Postgres) -> None:
    url = postgres.url(postgres.new_database())
    migrate(url)
    engine = opened(url)
    call, points = CALLS["record_look anew"], bound((0, 8), (0, 3, 8, 14), tuple(range(16)))
    prepare(engine)
    before = content(engine)
    call(engine)
    after = content(engine)
    for point in points:
        prepare(engine)
        with At(engine, point, lambda _: postgres.kill()) as at, pytest.raises(Unavailable):
            call(engine)
        assert at.has_ended
        with pytest.raises(Unavailable):
            list_tables(engine)
        postgres.start()
        assert content(engine) in (before, after)
        call(engine)
        assert content(engine) == after
    engine.dispose()


def test_a_look_that_loses_its_database_harms_no_table_and_is_made_up_for(
    engine: Engine, server: Postgres | None, tmp_path: Path
) -> None:
    file, tables = declared(tmp_path), ["trips", "riders"]
    for name in tables:
        made(tmp_path, name)
    files = tree_of(tmp_path / "tables")
    refresh(tables, file, engine=engine)
    after, end, points = told(engine), ends_connection(engine, server), 0
    step = bound(9, 7, 1)
    while True:
        forget(engine, tables)
        with At(engine, points, end):
            if call_unless_ended(lambda engine: refresh(tables, file, engine=engine), engine):
                break
        assert tree_of(tmp_path / "tables") == files
        refresh(tables, file, engine=engine)
        assert told(engine) == after
        points += step
    assert points > 20
    rebuild(tables, file, engine=engine)
    assert told(engine) == after
    assert tree_of(tmp_path / "tables") == files


def test_a_service_amid_whose_work_the_database_ends_goes_on(
    engine: Engine, server: Postgres | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At each statement of `begin_run`, `end` and `health_of_tables`: one warning, and the tables stay as they are."""
    file, table = declared(tmp_path), made(tmp_path)
    instant, files = table.ingest(pa.table({"id": ["c"], "v": [1]})).instant, tree_of(tmp_path / "tables")
    end, points, location = ends_connection(engine, server), 0, located(tmp_path)
    step = bound(5, 3, 1)
    while True:
        forget(engine, ["trips"])
        process = importlib.reload(best_effort)
        caplog.clear()
        with At(engine, points, end) as at:
            run = process.begin_run("ingest", location)
            run.end({"ok": True, "instant": instant}, cpu_s=0.1)
            (judged,) = process.health_of_tables(["trips"], file)
        assert judged.error is None
        said = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(said) == at.has_ended, f"at statement {points}"
        assert tree_of(tmp_path / "tables") == files
        if not at.has_ended:
            break
        points += step
    assert points > 20


def told(engine: Engine) -> dict[str, Any]:
    """What the registry has, without the times of the looks, and the ages that follow from them."""
    times = ("at_ms", "seen_ms", "first_ms", "since_ms", "picture_at_ms", "verdict", "seen", "picture")
    return {name: [without(row, *times) for row in rows] for name, rows in content(engine).items()}
