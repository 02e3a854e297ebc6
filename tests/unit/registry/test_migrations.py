"""The schema comes from the migrations alone: from nothing, and from each earlier one with its rows."""

from __future__ import annotations

import json
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import OperationalError

from hudi_ops.errors import HudiOpsError, InvalidRequest, Unavailable, Unsupported
from hudi_ops.redaction import redacted
from hudi_ops.registry.database import HEAD, engine_of, opened, shown_url, version_of
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.recording import record_verdict
from hudi_ops.registry.schema import METADATA
from hudi_ops.registry.store import list_tables, runs_of, table_named
from tests.unit.registry.told import key, verdict

LATER = "9999"


def compared(engine: Engine) -> list[Any]:
    """How a database differs from the schema of this release."""
    with engine.connect() as connection:
        found: list[Any] = compare_metadata(
            MigrationContext.configure(connection, opts={"compare_type": True}), METADATA
        )
        return found


def test_the_migrations_make_the_schema_and_a_second_call_changes_nothing(empty_url: str) -> None:
    assert migrate(empty_url) == ("", HEAD)
    assert compared(opened(empty_url)) == []
    assert migrate(empty_url) == (HEAD, HEAD)


ROWS: list[tuple[str, list[dict[str, Any]]]] = [
    (
        "INSERT INTO tables (id, name, location, table_id, settings, first_ms, seen_ms) "
        "VALUES (:id, :name, :location, :table_id, '{}', 1, :seen_ms)",
        [
            {"id": 1, "name": "trips", "location": "s3://lake/trips", "table_id": "old", "seen_ms": 10},
            {"id": 2, "name": "trips", "location": "s3://lake/trips", "table_id": "new", "seen_ms": 20},
            {"id": 3, "name": "riders", "location": "s3://lake/riders", "table_id": "x", "seen_ms": 15},
            {"id": 4, "name": "never", "location": "s3://lake/never", "table_id": "y", "seen_ms": 15},
        ],
    ),
    (
        "INSERT INTO verdicts (of_table, at_ms, seen_ms, digest, status, exit_code, verdict) "
        "VALUES (:of_table, :at_ms, :at_ms, 'd', :status, :exit_code, :verdict)",
        [
            {"of_table": of_table, "at_ms": at_ms, "status": said.status, "exit_code": said.exit_code}
            | {"verdict": json.dumps(said.model_dump(mode="json", exclude={"seen"}))}
            for of_table, at_ms, said in [
                (1, 10_000, verdict(13, 10_000)),
                (2, 15_000, verdict(0, 15_000)),
                (2, 20_000, verdict(4, 20_000, since_ms=17_000)),
                (3, 15_000, verdict(0, 15_000)),
            ]
        ],
    ),
    (
        "INSERT INTO runs (of_table, run_key, service, state, begun_ms, instant) "
        "VALUES (:of_table, :run_key, 'clean', 'succeeded', 5, '')",
        [{"of_table": 2, "run_key": "process-1"}, {"of_table": 3, "run_key": "process-2"}],
    ),
]


def test_rows_of_the_first_migration_are_kept_and_seen(empty_url: str) -> None:
    migrate(empty_url, "0001")
    with pytest.raises(Unsupported, match="another version") as refused:
        opened(empty_url)
    assert "hudi-ops registry migrate" in refused.value.next_step
    with engine_of(empty_url).begin() as connection:
        for statement, rows in ROWS:
            connection.execute(text(statement), rows)
    assert migrate(empty_url) == ("0001", HEAD)
    engine = opened(empty_url)
    details = table_named(engine, "trips")
    assert details is not None
    assert (details.row.table_id, details.row.status) == ("new", "")  # until the next look
    assert details.verdict == verdict(4, 20_000, since_ms=17_000).model_dump(mode="json", exclude={"seen"})
    assert [one.table_id for one in details.earlier] == ["old"]
    assert [run.key for run in runs_of(engine, details.row.id)] == ["process-1"]
    # What comes later goes on where the first migration ended, on PostgreSQL also with its numbers of rows.
    if engine.dialect.name == "postgresql":
        with engine.begin() as connection:
            connection.execute(text("SELECT setval(pg_get_serial_sequence('tables', 'id'), 4)"))
    assert record_verdict(engine, key(table_id="new"), verdict(0, 30_000))
    assert [(one.name, one.table_id) for one in list_tables(engine).rows] == [
        ("trips", "new"),
        ("never", "y"),
        ("riders", "x"),
    ]


def test_a_migration_that_dies_leaves_the_version_before(empty_url: str) -> None:
    migrate(empty_url, "0001")
    engine, statements = engine_of(empty_url), 0
    with engine.begin() as connection:
        connection.execute(text(ROWS[0][0]), ROWS[0][1])
    while True:
        left = statements

        def die(*_: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OperationalError("", {}, Exception("died"))

        event.listen(engine, "before_cursor_execute", die)
        try:
            migrate(empty_url)
        except HudiOpsError:
            pass
        else:
            break
        finally:
            event.remove(engine, "before_cursor_execute", die)
        # The last statements only ask for the version, once the migration is whole.
        assert version_of(engine) == "0001" or compared(engine) == []
        statements += 1
    assert statements > 8
    assert len(list_tables(opened(empty_url)).rows) == 4


def test_a_newer_registry_and_a_missing_one_say_what_to_do(empty_url: str) -> None:
    with pytest.raises(Unsupported, match=r"no registry yet|another version") as missing:
        opened(empty_url)
    assert "hudi-ops registry migrate" in missing.value.next_step
    migrate(empty_url)
    with engine_of(empty_url).begin() as connection:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{LATER}'"))
    for call in (opened, migrate):
        with pytest.raises(Unsupported) as newer:
            call(empty_url)
        assert newer.value.found == LATER
        assert "release" in newer.value.next_step


def test_a_sqlite_file_is_its_owners_alone_and_only_migrate_makes_it(tmp_path: Path) -> None:
    file = tmp_path / "not there yet" / "100% #1.db"
    url = f"sqlite:///{file}"
    with pytest.raises(Unsupported):
        opened(url)
    assert not file.parent.exists()
    migrate(url)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    engine = opened(url)
    record_verdict(engine, key(), verdict())
    assert {stat.S_IMODE(one.stat().st_mode) for one in file.parent.iterdir()} == {0o600}
    engine.dispose()
    for one in file.parent.iterdir():
        one.unlink()
    with pytest.raises(Unavailable):
        list_tables(engine)
    assert list(file.parent.iterdir()) == []


def test_a_first_connection_waits_for_a_writer_of_a_new_file(tmp_path: Path) -> None:
    file = tmp_path / "registry.db"
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")  # not in WAL: a switch to it fails at once
    timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    timer.start()
    assert migrate(f"sqlite:///{file}") == ("", HEAD)
    timer.join()
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///relative.db",
        "mysql://someone:sesame88@db/registry",
        "postgresql+nodriver://someone:sesame88@db/registry",
        "postgresql+psycopg2://someone:sesame88@db:port/registry",
    ],
)
def test_a_wrong_url_is_refused_without_its_password(url: str) -> None:
    for call in (opened, migrate):
        with pytest.raises(InvalidRequest) as refused:
            call(url)
        assert "sesame88" not in str(refused.value)
        assert "HUDI_OPS_REGISTRY" in refused.value.what


def test_parameters_of_a_url_are_not_shown() -> None:
    url = "postgresql+psycopg2://127.0.0.1:1/registry?user=someone&password=open%20sesame&sslpassword=simsim88"
    assert shown_url(url) == "postgresql+psycopg2://127.0.0.1:1/registry"
    with pytest.raises(Unavailable):
        opened(url)
    assert redacted("open sesame, open%20sesame, simsim88") == "***, ***, ***"


def test_a_server_that_refuses_is_reported_without_the_password() -> None:
    with pytest.raises(Unavailable) as refused:
        opened("postgresql+psycopg2://someone:sesame88@127.0.0.1:1/registry")
    assert "sesame88" not in str(refused.value) + repr(refused.value.__cause__)
    assert refused.value.next_step
