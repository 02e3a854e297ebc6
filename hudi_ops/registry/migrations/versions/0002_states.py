"""States: what the list shows of each table, its facts and picture, who is current."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the SQL tables of states and pictures; the next look at each table fills them."""
    op.add_column("tables", sa.Column("is_current", sa.Boolean, nullable=False, server_default=sa.true()))
    op.create_table(
        "states",
        sa.Column("of_table", _ID, nullable=False, autoincrement=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("exit_code", sa.Integer, nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("checks", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("of_table", name="pk_states"),
        sa.ForeignKeyConstraint(["of_table"], ["tables.id"], name="fk_states_of_table", ondelete="CASCADE"),
    )
    op.create_index("ix_states_rank", "states", ["rank", "since_ms"])
    op.create_table(
        "pictures",
        sa.Column("of_table", _ID, nullable=False, autoincrement=False),
        sa.Column("seen", sa.JSON),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("changes_with_time", sa.Boolean, nullable=False),
        sa.Column("picture_at_ms", sa.BigInteger),
        sa.Column("picture", sa.JSON),
        sa.PrimaryKeyConstraint("of_table", name="pk_pictures"),
        sa.ForeignKeyConstraint(["of_table"], ["tables.id"], name="fk_pictures_of_table", ondelete="CASCADE"),
    )
    with op.batch_alter_table("runs") as runs:
        runs.drop_constraint("uq_runs_run_key", type_="unique")
        runs.create_unique_constraint("uq_runs_of_table", ["of_table", "run_key"])
        runs.alter_column("dag_run", type_=sa.String(1000), existing_type=sa.String(250), existing_nullable=False)
    op.create_index("ix_runs_run_key", "runs", ["run_key"])
