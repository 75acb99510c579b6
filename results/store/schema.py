"""The tables of a store, the same on SQLite and PostgreSQL.

Times are seconds since 1970 (UTC). JSON columns hold documents as the commands print them. A
change here needs a revision in ``migrations/versions``; a test compares the two.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

HEAD = "0002"
"""Revision of the schema that this code reads and writes."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

problem = Table(
    "problem",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("hardware", Text, nullable=False),
    Column("workload", Text, nullable=False),
    Column("spec", Text, nullable=False),
)
"""A question, by the hash of what changes its answer; ``spec`` is its canonical JSON."""

study = Table(
    "study",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("problem_hash", ForeignKey("problem.hash"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("seed", BigInteger, nullable=False),
    Column("cost_model", Text, nullable=False),
    Column("versions", JSON, nullable=False),
    Column("inputs", JSON, nullable=False),
    Column("created", Double, nullable=False, index=True),
    Column("finished", Double),
    Column("seconds", Double, nullable=False),
    Column("owner", Text),
    Column("expires", Double),
    Column("error", Text),
    Column("result", JSON(none_as_null=True)),
    Column("table_file", Text),
    Column("table_sha256", String(64)),
)
"""An answer, or the work on it. ``id`` is the content key: problem, cost model, versions, kind.

``state`` is running, done, failed or interrupted; while it runs, ``owner`` holds it until
``expires``. ``seconds`` counts the time that was spent, over all attempts. ``table_file`` is the
name of the Parquet file of the kept plans.
"""

chunk = Table(
    "chunk",
    metadata,
    Column("study_id", ForeignKey("study.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)
"""A finished part of a study that still runs; ``content`` is its digest as Parquet."""

plan = Table(
    "plan",
    metadata,
    Column("study_id", ForeignKey("study.id", ondelete="CASCADE"), primary_key=True),
    Column("rank", Integer, primary_key=True, autoincrement=False),
    Column("axes", JSON, nullable=False),
    Column("cost", Double),
    Column("on_time", Double, nullable=False),
    Column("cards", Integer, nullable=False),
    Column("outcome", JSON, nullable=False),
)
"""The best plans of a finished study; ``on_time`` is the share of sessions."""

batch = Table(
    "batch",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("key", String(64), nullable=False, unique=True),
    Column("definition", JSON, nullable=False),
    Column("options", JSON, nullable=False),
    Column("state", String(16), nullable=False),
    Column("created", Double, nullable=False),
    Column("finished", Double),
    Column("owner", Text),
    Column("expires", Double),
)
"""Many problems that are answered as one; ``key`` is the hash of their list and the versions."""

batch_item = Table(
    "batch_item",
    metadata,
    Column("batch_id", ForeignKey("batch.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("label", JSON, nullable=False),
    Column("problem_hash", String(64), nullable=False),
    Column("spec", JSON, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("study_id", ForeignKey("study.id", ondelete="SET NULL"), index=True),
    Column("seconds", Double),
    Column("error", Text),
    Column("answer", JSON(none_as_null=True)),
    Index("ix_batch_item_queue", "batch_id", "state"),
)
"""One problem of a batch: waiting, running, done, infeasible, failed or over_limit."""
