"""An empty registry for each test, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from hudi_ops.registry import best_effort
from hudi_ops.registry.database import engine_of, opened
from hudi_ops.registry.migrate import migrate
from tests.postgres import Postgres, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server that runs, with the database `migrated`."""
    with running() as server:
        server.run("CREATE DATABASE migrated TEMPLATE template0")
        migrate(server.url("migrated"))
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full("starts PostgreSQL"))])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of a database without a schema."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/registry/registry.db"
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.url(server.new_database())
    yield url
    engine_of(url).dispose()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full("starts PostgreSQL"))])
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """A migrated registry, which is the one in force."""
    url = f"sqlite:///{tmp_path}/registry/registry.db"
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.url("migrated")
        server.run("TRUNCATE tables, states, pictures, verdicts, runs RESTART IDENTITY", "migrated")
    migrate(url)
    monkeypatch.setenv("HUDI_OPS_REGISTRY", url)
    importlib.reload(best_effort)  # an earlier test of this process may have given its registry up
    yield opened(url)
    engine_of(url).dispose()
