"""Open the registry's database, and tell whether it has the schema of this release."""

from __future__ import annotations

import math
import os
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_plus

from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Connection,
    Engine,
    Float,
    Integer,
    String,
    Table,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    SQLAlchemyError,
    TimeoutError as NoAnswer,
)

from hudi_ops.clock import SystemClock
from hudi_ops.config.places import REGISTRY_FILE, REGISTRY_VARIABLE, home
from hudi_ops.errors import Internal, InvalidRequest, Unavailable, Unsupported
from hudi_ops.redaction import redacted, remember_secret

HEAD = "0002"
"""Newest migration, which this release needs."""

CONNECT_S = 3
"""Seconds that a database has for a connection: no service waits longer for the registry."""

BUSY_MS = 5_000
"""Time for which a write waits for another one, and a statement of PostgreSQL for its end."""

WRITES = {"hudi_ops_writes": True}
"""Execution options of a transaction that writes."""

_SECRET_PARAMETER = re.compile(r"[?&][^=&]*(?:pass|secret|token|key)[^=&]*=([^&]+)", re.IGNORECASE)

_EXPECTED = "sqlite:////path/registry.db or postgresql+psycopg2://user:password@host/database"


def registry_url() -> str:
    """Return the URL of the database: HUDI_OPS_REGISTRY, or a SQLite file beside tables.yaml."""
    return os.environ.get(REGISTRY_VARIABLE, "").strip() or f"sqlite:///{home().absolute() / REGISTRY_FILE}"


def shown_url(url: str | None = None) -> str:
    """Return the URL of the database as it may be shown.

    It has no user, no password, and no parameters, which may be passwords, too.
    """
    return redacted(url or registry_url()).partition("?")[0]


def engine_of(url: str) -> Engine:
    """Return the pool of connections to a database; nothing is connected yet.

    Raises:
        InvalidRequest: the text is no URL of a database, or its driver is not installed.
    """
    # A process that was forked must not use, nor close, the connections of the one above.
    return _engine_of(url, os.getpid())


@cache
def _engine_of(url: str, _pid: int) -> Engine:
    for secret in _SECRET_PARAMETER.findall(url):
        remember_secret(unquote_plus(secret))
    try:
        parsed = make_url(url)
        if parsed.password:
            remember_secret(str(parsed.password))
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(parsed)
        if parsed.get_backend_name() != "postgresql":
            raise ArgumentError(f"{parsed.get_backend_name()} is not supported")
        # Of a server whose machine is gone a client learns only by the limits of its own connection.
        limits = {"connect_timeout": CONNECT_S, "keepalives_idle": CONNECT_S, "keepalives_interval": 1}
        engine = create_engine(parsed, connect_args=limits, pool_pre_ping=True, pool_timeout=CONNECT_S)
    except (ArgumentError, ImportError, SQLAlchemyError, ValueError) as error:
        raise InvalidRequest(
            f"{REGISTRY_VARIABLE} names no database that can be used",
            expected=_EXPECTED,
            found=redacted(f"{type(error).__name__}: {str(error).partition(' from ')[0]}"),
            next_step="correct the variable, install the driver, or unset it for a SQLite file",
        ) from None
    event.listen(engine, "connect", _on_postgresql)
    return engine


def file_of(engine: Engine) -> Path | None:
    """Return the file of a SQLite database; None: it is another database."""
    return Path(engine.url.database or "") if engine.dialect.name == "sqlite" else None


def _sqlite(url: URL) -> Engine:
    """Return the pool of connections to a SQLite file.

    Raises:
        ArgumentError: the URL names no file, or one that depends on the working folder.
    """
    if not url.database or not url.database.startswith("/"):
        raise ArgumentError("the path of the file is not absolute")
    # A connection never makes the file: only `migrate` does, with the rights that it should have.
    rest = {name: value for name, value in url.query.items() if name not in {"mode", "uri"}}
    file = url.set(database=f"file:{quote(url.database)}", query={**rest, "mode": "rw", "uri": "true"})
    engine = create_engine(file, connect_args={"timeout": BUSY_MS / 1000}, pool_timeout=CONNECT_S)
    engine.url = url
    event.listen(engine, "connect", _on_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _on_sqlite(connection: Any, _: Any) -> None:
    """Let readers go on beside a writer, and keep references whole."""
    connection.isolation_level = None  # `_begin_sqlite` begins: the driver would do so only at the first change
    cursor = connection.cursor()
    _keep_a_write_ahead_log(cursor)
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _keep_a_write_ahead_log(cursor: Any) -> None:
    """Switch the file to WAL, unless it has it; wait BUSY_MS for others that use a new file.

    SQLite's own timeout does not bound this: a switch fails at once while another connection switches or writes.

    Raises:
        OperationalError: others did not end in that time, or SQLite refuses the switch for another reason.
    """
    clock = SystemClock()
    until_s = clock.monotonic_s() + BUSY_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or clock.monotonic_s() >= until_s:
                raise
            clock.sleep_s(0.01)


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction; one that writes waits for others now.

    If it waited at its first change, it would have to begin anew.
    """
    is_writing = connection.get_execution_options().get("hudi_ops_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")


def _on_postgresql(connection: Any, _: Any) -> None:
    """Bound each statement, each wait for a lock, and what a process that died leaves open."""
    cursor = connection.cursor()
    cursor.execute(f"SET statement_timeout = {BUSY_MS}")
    cursor.execute(f"SET lock_timeout = {BUSY_MS}")
    cursor.execute(f"SET idle_in_transaction_session_timeout = {2 * BUSY_MS}")
    cursor.close()
    connection.commit()


def is_worth_a_retry(error: Exception) -> bool:
    """Return whether a transaction lost a race to another one, and may begin anew."""
    if isinstance(error, IntegrityError):
        return True
    return isinstance(error, DBAPIError) and getattr(error.orig, "pgcode", "") in {"40001", "40P01"}


def is_of_the_values(error: Exception) -> bool:
    """Return whether a database refuses the values of one statement, and would take others."""
    if isinstance(error, DataError | OverflowError):
        return True
    # PostgreSQL's class 54: a value is too large for an index.
    return isinstance(error, DBAPIError) and str(getattr(error.orig, "pgcode", "")).startswith(("22", "54"))


def version_of(engine: Engine) -> str:
    """Return the newest migration that a database has; empty: it has none.

    Raises as `answering`.
    """
    from alembic.runtime.migration import MigrationContext

    file = file_of(engine)
    if file is not None and not file.exists():
        return ""
    with answering(), engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision() or ""


def opened(url: str | None = None) -> Engine:
    """Return a database with the schema of this release.

    Args:
        url: of the database; None: the one in force.

    Raises:
        InvalidRequest: the URL is wrong.
        Unsupported: the database has the schema of another release, or none.
        Unavailable: it does not answer.
    """
    engine = engine_of(url or registry_url())
    found = version_of(engine)
    if found != HEAD:
        raise Unsupported(
            "the registry has another version" if found else "there is no registry yet",
            expected=f"migration {HEAD} in {shown_url(url)}",
            found=found or "none",
            next_step="run `hudi-ops registry migrate`"
            if found < HEAD
            else f"use the release of hudi-ops that migrated it, or name another database by {REGISTRY_VARIABLE}",
        )
    return engine


@contextmanager
def answering() -> Iterator[None]:
    """Turn errors of the database into errors of this library; credentials are masked.

    Raises:
        Unavailable: the database does not answer, or refuses a statement.
        Internal: it refuses the values of this call alone.
    """
    try:
        yield
    except (DBAPIError, NoAnswer, OverflowError) as error:
        # Not the whole error: it has the statement and its values.
        said = getattr(error, "orig", None) or error
        if is_of_the_values(error):
            raise Internal(
                "the registry's database refuses a value",
                found=redacted(f"{type(said).__name__}: {' '.join(str(said).split())}"[:500]),
                next_step="report it; other tables and runs are kept",
            ) from None
        raise Unavailable(
            "the registry's database does not answer, or refuses a statement",
            found=redacted(f"{type(said).__name__}: {' '.join(str(said).split())}"[:500]),
            next_step=f"look at the database that {REGISTRY_VARIABLE} names; tables and services do not need it",
        ) from None


def upsert(
    connection: Connection,
    table: Table,
    key: Mapping[str, Any],
    values: Mapping[str, Any],
    at_first: Mapping[str, Any] | None = None,
) -> None:
    """Write a row by its key, or replace the values of the one that is there.

    A new one also has the values `at_first`.
    """
    values = storable_row(table, values)
    made = insert_into(connection)(table).values(**key, **(at_first or {}), **values)
    connection.execute(made.on_conflict_do_update(index_elements=list(key), set_=values))


def insert_into(connection: Connection) -> Any:
    """Return the insert statement of the database that can replace a row."""
    return postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert


def storable_row(table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a row such that each database takes them.

    Texts are cut to the lengths of their columns, and numbers to what columns can hold.
    """
    return {name: _fitting(table.c[name].type, storable(value)) for name, value in values.items()}


def storable(value: Any) -> Any:
    """Return a value in the types of JSON that each database takes.

    Databases refuse NaN, the character NUL, and halves of characters.
    """
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping():
            return {storable(str(key)): storable(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [storable(item) for item in value]
    return str(value).replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def _fitting(kind: Any, value: Any) -> Any:
    if value is None or isinstance(kind, JSON) or isinstance(value, bool):
        return value
    if isinstance(kind, Float):
        return value if not isinstance(value, str) and abs(value) <= sys.float_info.max else None
    if isinstance(kind, Integer):
        most = 2**63 - 1 if isinstance(kind, BigInteger) else 2**31 - 1
        return min(max(int(value), -most), most)
    return value[: kind.length] if isinstance(kind, String) else value
