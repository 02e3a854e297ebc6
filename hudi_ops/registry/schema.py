"""The SQL tables of the registry: tables, their state, verdicts, and runs of services.

A change of them needs a migration in `migrations/versions`; a test compares both.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    true,
)

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

_ID = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by themselves in integer columns alone

TABLES = Table(
    "tables",
    METADATA,
    Column("id", _ID, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("location", Text, nullable=False),
    Column("table_id", String(64), nullable=False),
    Column("settings", JSON, nullable=False),
    Column("first_ms", BigInteger, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
    Column("is_current", Boolean, nullable=False, server_default=true()),
    UniqueConstraint("location", "table_id"),
    Index("ix_tables_name", "name"),
)
"""Tables: a table that was made again at its location has another row.

`name` is that of tables.yaml, or the location. `table_id` is of the commit log; empty: the table was not adopted. `is_current` is
false once another table is at its location or has its name. Times are in ms since 1970.
"""

STATES = Table(
    "states",
    METADATA,
    Column("of_table", _ID, ForeignKey("tables.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("status", String(20), nullable=False),
    Column("exit_code", Integer, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("error", Text, nullable=False),
    Column("checks", JSON, nullable=False),
    Index("ix_states_rank", "rank", "since_ms"),
)
"""Newest verdict of each table, as a list of tables shows it: small, so that thousands are read at once.

`rank` is the place of the exit code in `health.verdict.GRAVEST`; `since_ms` the oldest time since which a check is missed or
unknown, or the table cannot be judged; of a healthy table 0. `checks` holds name, status and since of each.
"""

PICTURES = Table(
    "pictures",
    METADATA,
    Column("of_table", _ID, ForeignKey("tables.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("seen", JSON(none_as_null=True)),
    Column("digest", String(64), nullable=False),
    Column("changes_with_time", Boolean, nullable=False),
    Column("picture_at_ms", BigInteger),
    Column("picture", JSON(none_as_null=True)),
)
"""What the next look at a table continues: the facts of its last verdict (`seen`), and its newest picture.

`digest` and `changes_with_time` are of the picture; an empty digest: there is none.
"""

VERDICTS = Table(
    "verdicts",
    METADATA,
    Column("id", _ID, primary_key=True),
    Column("of_table", _ID, ForeignKey("tables.id", ondelete="CASCADE"), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("status", String(20), nullable=False),
    Column("exit_code", Integer, nullable=False),
    Column("verdict", JSON, nullable=False),
    Index("ix_verdicts_of_table", "of_table", "at_ms"),
)
"""Verdicts that differ from the one before: `digest` is of what they say, `seen_ms` the time of the last equal one."""

RUNS = Table(
    "runs",
    METADATA,
    Column("id", _ID, primary_key=True),
    Column("of_table", _ID, ForeignKey("tables.id", ondelete="CASCADE"), nullable=False),
    Column("run_key", String(64), nullable=False),
    Column("service", String(40), nullable=False),
    Column("instant", String(32), nullable=False, server_default=""),
    Column("state", String(20), nullable=False),
    Column("begun_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger),
    Column("cpu_s", Float),
    Column("bytes", BigInteger),
    Column("rows", BigInteger),
    Column("note", Text, nullable=False, server_default=""),
    Column("error", JSON(none_as_null=True)),
    Column("dag_run", String(1000), nullable=False, server_default=""),
    Column("requester", String(250), nullable=False, server_default=""),
    UniqueConstraint("of_table", "run_key"),
    Index("ix_runs_of_table", "of_table", "begun_ms"),
    Index("ix_runs_run_key", "run_key"),
)
"""Runs of services; see `rows.Run`. `run_key` is the instant of a run that the table itself tells, else it names one process."""
