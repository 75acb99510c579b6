"""The store: answers that last, found again by their content, and never computed twice."""

import hashlib
import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa

from results.store import lease, migrate
from results.store.database import Database
from results.store.place import place
from results.store.schema import problem as problem_table
from results.store.schema import study as study_table
from results.store.study import Study
from results.store.tables import Tables
from results.versions import grounds
from specs.errors import SpecError
from specs.load import canonical_json, problem_hash
from specs.problem import Problem

_POLL_S = 0.2

_log = logging.getLogger(__name__)


def content_key(
    problem: Problem, versions: Mapping[str, str], kind: str, asked: object = None
) -> str:
    """Return what an answer is found by: the hash of all that it depends on.

    ``asked`` is what was asked about the problem, as JSON values; a ranking asks nothing more.
    """
    content: list[object] = [kind, problem_hash(problem), dict(versions)]
    content += [] if asked is None else [asked]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class Store:
    """Studies in a database, with their tables beside it; for many threads and processes."""

    def __init__(self, database: Database, tables: Tables) -> None:
        self.database = database
        self.tables = tables

    @classmethod
    def open(cls, url: str) -> "Store":
        """Open a store, made or migrated if need be.

        Parameters
        ----------
        url: ``sqlite:///FILE``, a bare file, or ``postgresql+psycopg://…?tables=FOLDER``.

        Raises ``SpecError`` if that is no store, cannot be reached or written, or if a newer
        planner wrote it.
        """
        where = place(url)
        database = Database(where)
        try:
            migrate.prepare(database)
        except BaseException:
            database.close()
            raise
        return cls(database, Tables(where))

    def close(self) -> None:
        """Close the connections."""
        self.database.close()

    @contextmanager
    def study(
        self,
        problem: Problem,
        inputs: Mapping[str, Any],
        kind: str = "rank",
        asked: object = None,
    ) -> Iterator[Study]:
        """Yield the study of a problem, found by its content or begun now.

        Parameters
        ----------
        inputs: how it was asked, as JSON values: ``source``, ``text``, ``sets``, ``executor``, …
        asked: what beside the problem makes the question, as JSON values.

        If another process works on it, wait for that one, with a note. A study that is not done is
        this process's own while the ``with`` lasts; what ends it early is noted in it.
        """
        id = self._ask(problem, inputs, kind, asked)
        study = self._claimed(id, inputs)
        if study.done:
            yield study
            return
        with lease.Heartbeat(self.database, study_table, id):
            try:
                yield study
            except BaseException as error:
                # What has failed is told; that it cannot be noted as well need not be.
                with suppress(SpecError):
                    study.give_up(*_ending(error))
                raise
        if not study.done:
            study.give_up("interrupted", None)

    def _ask(self, problem: Problem, inputs: Mapping[str, Any], kind: str, asked: object) -> str:
        """Return the id of the study of a problem, whose row is there after this."""
        versions = grounds(problem)
        id = content_key(problem, versions, kind, asked)
        with self.database.reading() as connection:
            if connection.execute(sa.select(study_table.c.id).filter_by(id=id)).first():
                return id
        hashed = problem_hash(problem)
        with self.database.writing() as connection:
            connection.execute(
                self.database.insert_new(
                    problem_table,
                    hash=hashed,
                    name=problem.name,
                    model=problem.model.name,
                    hardware=problem.hardware.name,
                    workload=problem.workload.kind,
                    spec=canonical_json(problem),
                )
            )
            connection.execute(
                self.database.insert_new(
                    study_table,
                    id=id,
                    kind=kind,
                    problem_hash=hashed,
                    name=problem.name,
                    state="interrupted",
                    seed=problem.search.seed,
                    cost_model=problem.cost_model,
                    versions=versions,
                    inputs=dict(inputs),
                    created=self.database.clock(connection),
                    seconds=0.0,
                )
            )
        return id

    def _claimed(self, id: str, inputs: Mapping[str, Any]) -> Study:
        """Return a study that is done, or whose lease this process has taken."""
        told = False
        while not (study := Study(self.database, self.tables, id)).done:
            with self.database.writing() as connection:
                other = self._take(connection, id, inputs)
            if other is None:
                return Study(self.database, self.tables, id)
            if not told:
                _log.warning("study %s is being computed by %s; waiting for it", id[:12], other)
                told = True
            time.sleep(_POLL_S)
        return study

    def _take(self, connection: sa.Connection, id: str, inputs: Mapping[str, Any]) -> str | None:
        """Begin to work on a study unless it is done; return who does already."""
        mine = study_table.c.id == id
        state = connection.execute(
            sa.select(study_table.c.state).where(mine).with_for_update()
        ).scalar_one()
        if state == "done":
            return None
        other = lease.take(self.database, connection, study_table, id)
        if other is None:
            begun = {"state": "running", "error": None, "finished": None, "inputs": dict(inputs)}
            connection.execute(sa.update(study_table).where(mine).values(begun))
        return other


def _ending(error: BaseException) -> tuple[str, str | None]:
    """Return the state that an attempt ends in, and what is kept of the error."""
    if isinstance(error, Exception):
        said = str(error) if isinstance(error, SpecError) else f"{type(error).__name__}: {error}"
        return "failed", said
    return "interrupted", None


__all__ = ["Store", "content_key"]
