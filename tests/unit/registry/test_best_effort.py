"""No registry, and none of its faults, fails a service or the judging of tables: they go on with one warning."""

from __future__ import annotations

import importlib
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import DataError

from hudi_ops.errors import Unavailable
from hudi_ops.registry import best_effort
from hudi_ops.registry.database import engine_of
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.recording import record_picture, record_table, record_verdict
from hudi_ops.registry.refresh import load_before
from hudi_ops.registry.rows import Run
from hudi_ops.registry.store import runs_of, table_named
from hudi_ops.storage.local import LocalStorage
from tests.postgres import Postgres
from tests.unit.cli.conftest import tree_of
from tests.unit.registry.on_disk import declared, located, made
from tests.unit.registry.told import key, picture, runs, verdict

PASSWORD = "sesame88"


@pytest.fixture
def fresh() -> ModuleType:
    """The module as a new process has it: nothing has failed yet."""
    return importlib.reload(best_effort)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with `tables.yaml` and the table `trips`."""
    declared(tmp_path)
    made(tmp_path)
    return tmp_path


def use(module: ModuleType, home: Path) -> None:
    """Do what a service and the DAG health do; fail if one of them does, or if the table changes."""
    files = tree_of(home / "tables")
    run = module.begin_run("compact", located(home))
    run.end({"app": "compact", "ok": True, "instant": None, "note": "nothing to do"}, cpu_s=0.1)
    module.begin_run("clean", located(home)).end({"app": "clean", "ok": False, "error": "Busy", "exit_code": 11})
    (found,) = module.health_of_tables(["trips"], str(home / "tables.yaml"))
    assert (found.table, found.error) == ("trips", None)
    assert tree_of(home / "tables") == files


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings and errors of this process, none of which has a password."""
    assert PASSWORD not in caplog.text
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def wrong(_: Path) -> str:
    return f"mysql://someone:{PASSWORD}@db/registry"


def missing(home: Path) -> str:
    return f"sqlite:///{home}/none/registry.db"


def down(_: Path) -> str:
    return f"postgresql+psycopg2://someone:{PASSWORD}@127.0.0.1:1/registry"


def newer(home: Path) -> str:
    url = f"sqlite:///{home}/newer.db"
    migrate(url)
    with engine_of(url).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    return url


def damaged(home: Path) -> str:
    (home / "damaged.db").write_bytes(b"no database at all" * 1000)
    return f"sqlite:///{home}/damaged.db"


@pytest.mark.parametrize("broken", [wrong, missing, down, newer, damaged])
def test_a_registry_that_cannot_be_used_costs_one_warning(
    broken: Callable[[Path], str],
    fresh: ModuleType,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("HUDI_OPS_REGISTRY", broken(home))
    use(fresh, home)
    (said,) = warnings(caplog)
    assert said.startswith("this process goes on without the registry: ")
    assert "Next: " in said


def fill(engine: Engine) -> None:
    """Use up the pages that are free already; raise once there are none."""
    for number in range(1000):
        record_table(engine, key(f"filler {number}"), {"x": "y" * 500}, 1)


def test_a_full_registry_costs_one_warning(
    engine: Engine, fresh: ModuleType, home: Path, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    """SQLite takes no further page; an administrator lets a PostgreSQL without space read only."""
    fresh.begin_run("compact", located(home))
    server: Postgres | None = None
    engine.dispose()
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA max_page_count=1"))
        with pytest.raises(Unavailable):
            fill(engine)
    else:
        server = request.getfixturevalue("postgres")
        server.run("ALTER DATABASE migrated SET default_transaction_read_only = on")
    try:
        use(fresh, home)
    finally:
        if server is not None:
            server.run("ALTER DATABASE migrated RESET default_transaction_read_only")
        engine.dispose()
    (said,) = warnings(caplog)
    assert "full" in said or "read-only" in said
    found = table_named(engine, "trips")
    assert found is not None
    assert (found.verdict, found.picture) == (None, None)


@pytest.fixture
def stopped(postgres: Postgres) -> Iterator[Postgres]:
    """A server that accepts connections, and never answers."""
    postgres.kill(signal.SIGSTOP)
    yield postgres
    postgres.kill(signal.SIGCONT)


@pytest.mark.full("waits for a PostgreSQL that does not answer")
def test_a_registry_that_hangs_costs_one_warning(
    stopped: Postgres, fresh: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine_of(stopped.url("migrated")).dispose()
    monkeypatch.setattr(fresh, "LIMIT_S", 1.0)
    monkeypatch.setenv("HUDI_OPS_REGISTRY", stopped.url("migrated"))
    use(fresh, home)
    assert len(warnings(caplog)) == 1


def test_a_slow_registry_is_given_up_once_its_time_is_over(
    engine: Engine, fresh: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each call would be answered in time: together they may not take longer than one that hangs."""
    monkeypatch.setattr(fresh, "LIMIT_S", 0.5)
    monkeypatch.setattr(fresh, "PROMPT_S", 0.01)
    asked: list[float] = []

    def slow(*_: object) -> None:
        asked.append(time.monotonic())
        time.sleep(0.02)

    event.listen(engine, "before_cursor_execute", slow)
    begun_s = time.monotonic()
    for _ in range(40):
        fresh.begin_run("compact", located(home))
    event.remove(engine, "before_cursor_execute", slow)
    assert asked[-1] - begun_s < 1.5
    assert len(warnings(caplog)) == 1


def test_a_thousand_tables_are_asked_for_with_few_statements(engine: Engine) -> None:
    names = [f"t{number}" for number in range(1000)]
    for name in names[::200]:
        record_verdict(engine, key(name), verdict(4, table=name))
        record_picture(engine, key(name), picture())
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *values: statements.append(values[2]))
    assert sorted(load_before(engine, names)) == sorted(names[::200])
    assert len(statements) <= 3  # SQLite has its BEGIN


def test_a_table_that_hangs_delays_no_end(
    engine: Engine, fresh: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends = threading.Event()
    monkeypatch.setattr(fresh, "TABLE_S", 0.2)
    monkeypatch.setattr(LocalStorage, "get", lambda *_, **__: ends.wait(30))
    run = fresh.begin_run("ingest", located(home))
    run.end({"ok": True, "instant": "20261130000000000"}, cpu_s=0.1)
    ends.set()
    (kept,) = runs(engine)
    assert (kept.state, kept.instant) == ("succeeded", "20261130000000000")
    assert warnings(caplog) == []


def test_a_record_that_the_database_refuses_costs_itself_alone(
    engine: Engine, fresh: ModuleType, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise DataError("", {}, Exception("value too long"))

    event.listen(engine, "before_cursor_execute", refuse)
    for _ in range(2):
        fresh.begin_run("compact", located(home))
    event.remove(engine, "before_cursor_execute", refuse)
    (said,) = warnings(caplog)
    assert "value too long" in said
    fresh.begin_run("compact", located(home))
    assert len(runs(engine)) == 1


def test_a_user_without_a_home_has_no_registry(
    fresh: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A container runs as a user that its image does not know."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("HUDI_OPS_REGISTRY", raising=False)
    monkeypatch.setattr(fresh, "home", homeless)
    use(fresh, home)
    assert warnings(caplog) == []


def test_without_a_registry_nothing_is_said(
    fresh: ModuleType, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("HUDI_OPS_REGISTRY", raising=False)
    monkeypatch.setenv("HUDI_OPS_HOME", str(home))
    assert not fresh.is_wanted()
    use(fresh, home)
    assert warnings(caplog) == []
    assert sorted(one.name for one in home.iterdir()) == ["tables", "tables.yaml"]
    # Its file is enough.
    migrate()
    use(fresh, home)
    assert warnings(caplog) == []
    assert (home / "registry.db").stat().st_size > 0


WITHOUT_PACKAGES = """
import sys
from pathlib import Path
sys.modules["sqlalchemy"] = sys.modules["alembic"] = None
from hudi_ops.config.tables_file import locate_table
from hudi_ops.errors import Unavailable
from hudi_ops.registry import best_effort
file = Path(sys.argv[1], "tables.yaml")
best_effort.begin_run("compact", locate_table("trips", file)).end({"ok": True, "instant": None})
assert best_effort.health_of_tables(["trips"], str(file))[0].error is None
"""


def test_without_its_packages_the_registry_costs_one_warning(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGES, str(home)],
        env={"HUDI_OPS_REGISTRY": f"sqlite:///{home}/r.db", "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1
    assert "pip install 'hudi-ops[registry]'" in done.stderr


def test_what_services_and_the_dag_health_do_is_kept(engine: Engine, fresh: ModuleType, home: Path) -> None:
    use(fresh, home)
    found = table_named(engine, "trips")
    assert found is not None
    assert (found.row.status, found.picture is not None) == ("healthy", True)
    kept = {run.service: run for run in runs_of(engine, found.row.id) if not run.is_from_timeline}
    assert {name: (run.state, run.note) for name, run in kept.items()} == {
        "compaction": ("skipped", "nothing to do"),
        "clean": ("failed", ""),
    }
    assert kept["clean"].error == {"error": "Busy", "exit_code": 11}
    assert isinstance(kept["compaction"], Run)
    assert kept["compaction"].cpu_s == 0.1
    # The verdict that a caller kept itself is continued.
    (again,) = fresh.health_of_tables(["trips"], str(home / "tables.yaml"), {"trips": found.verdict or {}})
    assert again.status == "healthy"
