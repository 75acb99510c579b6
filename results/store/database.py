"""The database of a store: connections, transactions, and what to say when they fail.

SQLite runs in WAL mode, so that readers and the one writer do not wait for each other, and with
``synchronous=FULL``: what is committed must outlive a loss of power, not only of the process, and
a study commits so seldom that one more fsync costs nothing. Writers take the lock when they
begin, so that no transaction that has read must be given up when it comes to write.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import NoSuchModuleError

from results.store import faults
from results.store.place import Place

PATIENCE_S = 30
"""Seconds that a transaction waits for another one."""

_CONNECT_S = 10


class Database:
    """Transactions on the database of a store; safe to use from several threads."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.engine = _sqlite(place) if place.file else _postgresql(place)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is one file on this machine."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Yield a connection that sees one state of the database."""
        with faults.told(self.place), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Yield a connection whose changes are all durable at the end, or none of them."""
        options = {"sqlite_begin": "BEGIN IMMEDIATE"}
        with (
            faults.told(self.place),
            self.engine.connect().execution_options(**options) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def migrating(self) -> Iterator[sa.Connection]:
        """Yield a connection as :meth:`writing` does, on which tables may be replaced.

        SQLite alters a table by making it again; with foreign keys on, to drop the old one would
        drop what refers to it.
        """
        with faults.told(self.place), self.engine.connect() as connection:
            driver = connection.connection.driver_connection
            if self.is_sqlite and driver:
                driver.execute("PRAGMA foreign_keys=OFF")
            writing = connection.execution_options(sqlite_begin="BEGIN IMMEDIATE")
            with writing.begin():
                yield writing
            connection.invalidate()

    def clock(self, connection: sa.Connection) -> float:
        """Return the time on the clock that all users of the database share, in seconds."""
        if self.is_sqlite:
            return time.time()
        now = sa.text("SELECT extract(epoch FROM clock_timestamp())")
        return float(connection.execute(now).scalar_one())

    def insert_new(self, table: sa.Table, **values: Any) -> sa.Executable:
        """Return an insert that leaves a row of the same key as it is."""
        if self.is_sqlite:
            from sqlalchemy.dialects import sqlite

            return sqlite.insert(table).values(**values).on_conflict_do_nothing()
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).values(**values).on_conflict_do_nothing()

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _sqlite(place: Place) -> sa.Engine:
    assert place.file is not None
    try:
        place.file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise faults.of_file(place, place.file.parent, error) from error
    timeout = {} if "timeout" in place.url.query else {"timeout": PATIENCE_S}
    engine = sa.create_engine(place.url, connect_args=timeout)

    def prepare(connection: Any, _: object) -> None:
        # Transactions begin where we say, not where the driver guesses.
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    def begin(connection: sa.Connection) -> None:
        how = connection.get_execution_options().get("sqlite_begin", "BEGIN")
        connection.exec_driver_sql(how)

    sa.event.listen(engine, "connect", prepare)
    sa.event.listen(engine, "begin", begin)
    return engine


def _postgresql(place: Place) -> sa.Engine:
    try:
        engine = sa.create_engine(
            place.url,
            pool_pre_ping=True,
            connect_args={"connect_timeout": _CONNECT_S, "application_name": "planner"},
        )
    except (ImportError, NoSuchModuleError):
        raise place.refusal(
            "PostgreSQL needs the package psycopg",
            "Install llm-deployment-planner[postgres]",
        ) from None

    def prepare(connection: Any, _: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{PATIENCE_S}s'")
            # A server may be set to lose the last commits; a store may not.
            cursor.execute("SET synchronous_commit = on")
        connection.commit()

    sa.event.listen(engine, "connect", prepare)
    return engine
