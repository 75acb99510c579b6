"""The schema moves up and down on data, and the newest revision is what the code declares."""

from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from results.store import Store, schema
from results.store.database import Database
from results.store.migrate import TABLE, revision, to_revision
from results.store.place import place
from specs.errors import SpecError
from tests.store.support import INPUTS, answer, keep, opened, problem, ranked

STUDIES = (schema.problem, schema.study, schema.chunk, schema.plan)


def rows(database: Database, tables: tuple[sa.Table, ...]) -> dict[str, list[Any]]:
    with database.reading() as connection:
        return {t.name: [tuple(r) for r in connection.execute(sa.select(t))] for t in tables}


def filled(store: Store) -> None:
    """A finished study, one with a chunk that is not, and a batch that refers to the first."""
    id = keep(store, problem())
    with (
        pytest.raises(KeyboardInterrupt),
        store.study(problem("limits.cards=4"), INPUTS) as study,
    ):
        study.store(0, ranked(problem()).found.digest)
        raise KeyboardInterrupt
    batch = {"id": "b", "name": "b", "key": "k", "definition": {}, "options": {}, "state": "done"}
    item = {"batch_id": "b", "label": {}, "problem_hash": "h", "spec": {}, "priority": 0}
    with store.database.writing() as connection:
        connection.execute(sa.insert(schema.batch).values({**batch, "created": 0.0}))
        row = item | {"position": 0, "state": "done", "study_id": id}
        connection.execute(sa.insert(schema.batch_item).values(row))


def test_down_and_up_keep_what_there_is(store_url: str) -> None:
    with opened(store_url) as store:
        filled(store)
        before = rows(store.database, STUDIES)
        assert all(before.values())
        to_revision(store.database, "0001")
        assert rows(store.database, STUDIES) == before
        with store.database.reading() as connection:
            assert revision(connection) == "0001"
            assert not sa.inspect(connection).has_table("batch")
    with opened(store_url) as store:  # opening brings it up again
        assert rows(store.database, STUDIES) == before
        assert rows(store.database, (schema.batch,)) == {"batch": []}
        assert answer(store, problem())["plans"]


def differences(connection: sa.Connection) -> list[Any]:
    """What Alembic would change to make the database what the code declares."""
    options = {"compare_type": True, "include_object": lambda o, name, *rest: name != TABLE}
    context = MigrationContext.configure(connection, opts=options)
    return compare_metadata(context, schema.metadata)


def test_revisions_make_what_the_code_declares(store_url: str) -> None:
    config = Config()
    config.set_main_option("script_location", "results.store:migrations")
    assert ScriptDirectory.from_config(config).get_current_head() == schema.HEAD
    database = Database(place(store_url))
    with database.migrating() as connection:
        config.attributes |= {"connection": connection, "version_table": TABLE}
        command.upgrade(config, "head")
    with database.reading() as connection:
        assert revision(connection) == schema.HEAD
        assert differences(connection) == []
    with database.migrating() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    with database.reading() as connection:
        assert sa.inspect(connection).get_table_names() == [TABLE]
    database.close()


def test_a_new_store_is_what_revisions_make(store_url: str) -> None:
    with opened(store_url) as store, store.database.reading() as connection:
        assert differences(connection) == []


def test_a_newer_store_is_refused(store_url: str) -> None:
    with opened(store_url) as store, store.database.writing() as connection:
        connection.execute(sa.text(f"UPDATE {TABLE} SET version_num = '0099'"))
    with pytest.raises(SpecError, match=r"has revision 0099, .*newer planner wrote it"):
        Store.open(store_url)


def test_tables_of_something_else_are_left_alone(store_url: str) -> None:
    database = Database(place(store_url))
    with database.writing() as connection:
        connection.execute(sa.text("CREATE TABLE plan (mine INTEGER)"))
    with pytest.raises(SpecError, match="holds tables of something else: plan"):
        Store.open(store_url)
    with database.reading() as connection:
        assert sa.inspect(connection).get_table_names() == ["plan"]
    database.close()
