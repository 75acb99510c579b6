"""The revision of a database: made new, brought up to date, or refused.

Alembic runs only where a revision changes. A store that is current costs one query, and a new one
is made whole from the schema; a test holds that to be what all revisions together make.
"""

import sqlalchemy as sa

from results.store.database import Database
from results.store.schema import HEAD, metadata
from specs.errors import SpecError

TABLE = "planner_revision"
"""Table that holds the revision; its name leaves room for others in the same database."""

_revision = sa.table(TABLE, sa.column("version_num", sa.String(32)))
_LOCK = 0x706C616E  # "plan": makes and migrations of PostgreSQL take turns on it


def prepare(database: Database) -> None:
    """Make the tables, or bring them to :data:`HEAD`.

    Raises ``SpecError`` if a newer planner wrote them, or if they are not those of a store.
    """
    with database.reading() as connection:
        found = revision(connection)
    if found == HEAD:
        return
    if found is None:
        _make(database)
    else:
        to_revision(database, HEAD)


def revision(connection: sa.Connection) -> str | None:
    """Return the revision of a database, ``None`` if it holds no store."""
    if not sa.inspect(connection).has_table(TABLE):
        return None
    return connection.execute(sa.select(_revision.c.version_num)).scalar_one_or_none()


def _make(database: Database) -> None:
    with database.writing() as connection:
        _alone(database, connection)
        if revision(connection) is not None:
            return  # another process was faster
        taken = sorted(set(metadata.tables) & set(sa.inspect(connection).get_table_names()))
        if taken:
            other = ", ".join(taken)
            raise database.place.refusal(f"holds tables of something else: {other}")
        metadata.create_all(connection, checkfirst=False)
        sa.Table(
            TABLE,
            sa.MetaData(),
            sa.Column("version_num", sa.String(32), primary_key=True),
        ).create(connection)
        connection.execute(sa.insert(_revision).values(version_num=HEAD))


def to_revision(database: Database, wanted: str) -> None:
    """Bring a database to a revision, forwards or back, in one transaction.

    Raises ``SpecError`` if there is no such revision, or if the database has one that this code
    does not know.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", "results.store:migrations")
    known = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    if wanted not in known:
        raise SpecError.single(
            "revision", wanted, f"no such revision; known: {', '.join(sorted(known))}"
        )
    with database.migrating() as connection:
        _alone(database, connection)
        found = revision(connection)
        if found not in known:
            raise database.place.refusal(
                f"has revision {found}, and this planner knows revisions up to {HEAD}",
                "A newer planner wrote it: upgrade this one, or name another store",
            )
        config.attributes["connection"] = connection
        config.attributes["version_table"] = TABLE
        # Revisions are walked from the newest to the oldest.
        move = command.upgrade if known.index(wanted) < known.index(found) else command.downgrade
        move(config, wanted)


def _alone(database: Database, connection: sa.Connection) -> None:
    """Wait until no other process makes or migrates the tables; SQLite has one writer anyway."""
    if not database.is_sqlite:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
