"""Begin: tables, verdicts, runs."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the first three SQL tables."""
    op.create_table(
        "tables",
        sa.Column("id", _ID, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("location", sa.Text, nullable=False),
        sa.Column("table_id", sa.String(64), nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("first_ms", sa.BigInteger, nullable=False),
        sa.Column("seen_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tables"),
        sa.UniqueConstraint("location", "table_id", name="uq_tables_location"),
    )
    op.create_index("ix_tables_name", "tables", ["name"])
    op.create_table(
        "verdicts",
        sa.Column("id", _ID, nullable=False),
        sa.Column("of_table", _ID, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("seen_ms", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("exit_code", sa.Integer, nullable=False),
        sa.Column("verdict", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_verdicts"),
        sa.ForeignKeyConstraint(["of_table"], ["tables.id"], name="fk_verdicts_of_table", ondelete="CASCADE"),
    )
    op.create_index("ix_verdicts_of_table", "verdicts", ["of_table", "at_ms"])
    op.create_table(
        "runs",
        sa.Column("id", _ID, nullable=False),
        sa.Column("of_table", _ID, nullable=False),
        sa.Column("run_key", sa.String(64), nullable=False),
        sa.Column("service", sa.String(40), nullable=False),
        sa.Column("instant", sa.String(32), nullable=False, server_default=""),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("begun_ms", sa.BigInteger, nullable=False),
        sa.Column("ended_ms", sa.BigInteger),
        sa.Column("cpu_s", sa.Float),
        sa.Column("bytes", sa.BigInteger),
        sa.Column("rows", sa.BigInteger),
        sa.Column("note", sa.Text, nullable=False, server_default=""),
        sa.Column("error", sa.JSON),
        sa.Column("dag_run", sa.String(250), nullable=False, server_default=""),
        sa.Column("requester", sa.String(250), nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.ForeignKeyConstraint(["of_table"], ["tables.id"], name="fk_runs_of_table", ondelete="CASCADE"),
        sa.UniqueConstraint("run_key", name="uq_runs_run_key"),
    )
    op.create_index("ix_runs_of_table", "runs", ["of_table", "begun_ms"])
