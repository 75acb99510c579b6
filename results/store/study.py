"""One study of a store: where a search keeps its finished chunks, and what it ends with."""

import json
import time
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from results.store import lease
from results.store.codec import Unreadable, from_bytes, to_bytes
from results.store.database import Database
from results.store.schema import chunk, plan, study
from results.store.tables import Tables
from searches.digest import Digest

Document = dict[str, Any]


class Study:
    """A question that is kept: answered, or being worked on by this process.

    It is the ``ChunkSink`` of a search. What it keeps is durable when a method returns.
    """

    def __init__(self, database: Database, tables: Tables, id: str) -> None:
        self._database, self._tables, self.id = database, tables, id
        self._begun = time.monotonic()
        with database.reading() as connection:
            self._row = connection.execute(sa.select(study).where(study.c.id == id)).one()

    @property
    def done(self) -> bool:
        """Whether the answer is there."""
        return bool(self._row.state == "done")

    @property
    def seconds(self) -> float:
        """Seconds spent on it so far, over all attempts."""
        return float(self._row.seconds) + time.monotonic() - self._begun

    @property
    def document(self) -> Document:
        """The answer as it was given: the JSON document of a finished study."""
        document: Document = self._row.result
        return document

    def conflict(self) -> Document | None:
        """Return why nothing is feasible, if that is the answer of this finished study."""
        return self.document.get("conflict")

    def digest(self) -> Digest:
        """Return what was kept of the plans of this finished study.

        Raises ``SpecError`` if the table beside the database is lost or damaged.
        """
        row = self._row
        content = self._tables.read(row.table_file, row.table_sha256, self.id)
        try:
            return from_bytes(content)
        except Unreadable as error:
            raise self._tables.lost(self.id, str(error)) from error

    def known(self) -> Collection[int]:
        """Return the indices of the chunks that are kept."""
        with self._database.reading() as connection:
            mine = sa.select(chunk.c.position).where(chunk.c.study_id == self.id)
            return connection.execute(mine).scalars().all()

    def load(self, index: int) -> Digest:
        """Return a kept chunk. Raises ``KeyError`` if it is not there."""
        return from_bytes(self._content(index))

    def store(self, index: int, digest: Digest) -> None:
        """Keep a finished chunk; one that is there already stays."""
        self._keep(index, to_bytes(digest))

    def load_part(self, index: int) -> Document:
        """Return a kept part of an answer that is no ranking. Raises ``KeyError`` as above."""
        part: Document = json.loads(self._content(index))
        return part

    def store_part(self, index: int, part: Document) -> None:
        """Keep a finished part of an answer that is no ranking."""
        self._keep(index, json.dumps(part, allow_nan=False).encode())

    def _content(self, index: int) -> bytes:
        with self._database.reading() as connection:
            content = connection.execute(
                sa.select(chunk.c.content).where(
                    chunk.c.study_id == self.id, chunk.c.position == index
                )
            ).scalar_one_or_none()
        if content is None:
            raise KeyError(index)
        return bytes(content)

    def _keep(self, index: int, content: bytes) -> None:
        with self._database.writing() as connection:
            lease.renew(self._database, connection, study, self.id)
            connection.execute(
                self._database.insert_new(chunk, study_id=self.id, position=index, content=content)
            )

    def finish(self, digest: Digest, document: Document) -> None:
        """Keep the answer in place of the chunks: the document, its plans as rows, the table."""
        self._end(document, document["plans"], *self._tables.write(self.id, to_bytes(digest)))

    def answer(self, document: Document) -> None:
        """Keep an answer that is no ranking in place of its parts."""
        self._end(document)

    def _end(
        self,
        document: Document,
        plans: Sequence[Document] = (),
        file: str | None = None,
        sha256: str | None = None,
    ) -> None:
        with self._database.writing() as connection:
            lease.renew(self._database, connection, study, self.id)
            connection.execute(sa.delete(chunk).where(chunk.c.study_id == self.id))
            connection.execute(sa.delete(plan).where(plan.c.study_id == self.id))
            if rows := [self._plan(item) for item in plans]:
                connection.execute(sa.insert(plan), rows)
            self._row = connection.execute(
                sa.update(study)
                .where(study.c.id == self.id)
                .values(
                    state="done",
                    finished=self._database.clock(connection),
                    seconds=self.seconds,
                    owner=None,
                    expires=None,
                    error=None,
                    result=document,
                    table_file=file,
                    table_sha256=sha256,
                )
                .returning(study)
            ).one()

    def give_up(self, state: str, error: str | None) -> None:
        """End the attempt without an answer; finished chunks stay for the next one."""
        with self._database.writing() as connection:
            connection.execute(
                sa.update(study)
                .where(study.c.id == self.id, study.c.owner == lease.holder())
                .values(
                    state=state,
                    error=error,
                    finished=self._database.clock(connection),
                    seconds=self.seconds,
                    owner=None,
                    expires=None,
                )
            )

    def _plan(self, item: Document) -> Document:
        outcome = item["outcome"]
        if "sessions" in outcome:
            on_time = outcome["on_time"] / outcome["sessions"]
        else:
            on_time = outcome["on_time_share"]
        return {
            "study_id": self.id,
            "rank": item["rank"],
            "axes": item["plan"],
            "cost": outcome["cost_per_on_time_session"],
            "on_time": on_time,
            "cards": outcome["cards"],
            "outcome": outcome,
        }
