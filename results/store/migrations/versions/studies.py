"""Problems, studies, their chunks and their best plans."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables of an empty store."""
    op.create_table(
        "problem",
        sa.Column("hash", sa.String(64), nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("name", "model", "hardware")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("workload", "spec")),
        sa.PrimaryKeyConstraint("hash", name="pk_problem"),
    )
    op.create_table(
        "study",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("problem_hash", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("cost_model", sa.Text, nullable=False),
        sa.Column("versions", sa.JSON, nullable=False),
        sa.Column("inputs", sa.JSON, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("finished", sa.Double),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("expires", sa.Double),
        sa.Column("error", sa.Text),
        sa.Column("result", sa.JSON),
        sa.Column("table_file", sa.Text),
        sa.Column("table_sha256", sa.String(64)),
        sa.PrimaryKeyConstraint("id", name="pk_study"),
        sa.ForeignKeyConstraint(["problem_hash"], ["problem.hash"], name="fk_study_problem_hash"),
    )
    for column in ("problem_hash", "state", "created"):
        op.create_index(f"ix_study_{column}", "study", [column])
    op.create_table(
        "chunk",
        sa.Column("study_id", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        *_of_a_study("chunk", "position"),
    )
    op.create_table(
        "plan",
        sa.Column("study_id", sa.String(64), nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
        sa.Column("axes", sa.JSON, nullable=False),
        sa.Column("cost", sa.Double),
        sa.Column("on_time", sa.Double, nullable=False),
        sa.Column("cards", sa.Integer, nullable=False),
        sa.Column("outcome", sa.JSON, nullable=False),
        *_of_a_study("plan", "rank"),
    )


def _of_a_study(table: str, key: str) -> tuple[sa.Constraint, sa.Constraint]:
    return (
        sa.PrimaryKeyConstraint("study_id", key, name=f"pk_{table}"),
        sa.ForeignKeyConstraint(
            ["study_id"], ["study.id"], name=f"fk_{table}_study_id", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    """Leave nothing."""
    for table in ("plan", "chunk", "study", "problem"):
        op.drop_table(table)
