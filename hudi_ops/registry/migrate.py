"""Bring the registry's database to the schema of this release."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from hudi_ops.config.places import REGISTRY_VARIABLE
from hudi_ops.errors import Unavailable, Unsupported
from hudi_ops.registry.database import (
    HEAD,
    WRITES,
    answering,
    engine_of,
    file_of,
    registry_url,
    version_of,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

SCRIPTS = Path(__file__).parent / "migrations"

LOCK = 4_620_260
"""Number of the lock of PostgreSQL under which one process migrates while others wait."""


def migrate(url: str | None = None, target: str = HEAD) -> tuple[str, str]:
    """Apply the migrations that a database lacks; return its version before and after.

    A second call changes nothing. All of it is one transaction: a process that dies leaves the version before. A SQLite file is
    made such that only its owner may read it, as Airflow makes its own.

    Args:
        url: of the database; None: the one in force.
        target: migration to end with.

    Raises:
        InvalidRequest: the URL is wrong.
        Unsupported: a newer release migrated the database.
        Unavailable: the database does not answer, or its file cannot be made.
    """
    engine = engine_of(url or registry_url())
    file = file_of(engine)
    if file is not None:
        _make(file)
    before = version_of(engine)
    if before > HEAD:
        raise Unsupported(
            "a newer release migrated the registry",
            expected=f"migration {HEAD} or an earlier one",
            found=before,
            next_step=f"use that release, or name another database by {REGISTRY_VARIABLE}",
        )
    if before >= target:
        return before, before
    with answering(), engine.execution_options(**WRITES).begin() as connection:
        if file is None:
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
        _upgrade(connection, target)
    return before, version_of(engine)


def _make(file: Path) -> None:
    """Make an empty file that only its owner may read, unless it is there.

    Raises:
        Unavailable: it cannot be made.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise Unavailable(
            f"the registry's file {file} cannot be made",
            found=f"{type(error).__name__}: {error.strerror}",
            next_step=f"grant the right to write there, or name another file by {REGISTRY_VARIABLE}",
        ) from None


def _upgrade(connection: Connection, target: str) -> None:
    """Run the migrations on a connection, within its transaction."""
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(SCRIPTS))

    def steps(revision: Any, _: Any) -> Any:
        return scripts._upgrade_revs(target, revision)

    with EnvironmentContext(Config(), scripts, fn=steps, destination_rev=target) as environment:
        environment.configure(connection=connection, render_as_batch=True)
        environment.run_migrations()
