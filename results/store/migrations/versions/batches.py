"""Batches and their problems."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add batches; studies stay as they are."""
    op.create_table(
        "batch",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("definition", sa.JSON, nullable=False),
        sa.Column("options", sa.JSON, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("finished", sa.Double),
        sa.Column("owner", sa.Text),
        sa.Column("expires", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_batch"),
        sa.UniqueConstraint("key", name="uq_batch_key"),
    )
    op.create_table(
        "batch_item",
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("label", sa.JSON, nullable=False),
        sa.Column("problem_hash", sa.String(64), nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("study_id", sa.String(64)),
        sa.Column("seconds", sa.Double),
        sa.Column("error", sa.Text),
        sa.Column("answer", sa.JSON),
        sa.PrimaryKeyConstraint("batch_id", "position", name="pk_batch_item"),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["batch.id"], name="fk_batch_item_batch_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["study_id"], ["study.id"], name="fk_batch_item_study_id", ondelete="SET NULL"
        ),
    )
    op.create_index("ix_batch_item_study_id", "batch_item", ["study_id"])
    op.create_index("ix_batch_item_queue", "batch_item", ["batch_id", "state"])


def downgrade() -> None:
    """Take the batches away; the studies that answered their problems stay."""
    op.drop_table("batch_item")
    op.drop_table("batch")
