"""Many problems as one durable batch: solved wherever an executor runs, kept as they come.

Each answer is a study of the store, so a problem that any study has answered is not computed
again, and what a batch computes answers ``planner rank`` later. A problem is acknowledged in the
batch after its study is durable.
"""

import hashlib
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.solving import Answer, solve
from planner.studies import check
from results.store import Store
from results.store.batches import Batch, Definition, Row
from results.store.store import content_key
from results.versions import grounds
from results.winners import answer_of
from searches.executors import Executor, WorkerLost
from specs.errors import SpecError
from specs.grid import BatchLimit
from specs.load import canonical_json, problem_hash
from specs.problem import Problem
from specs.problems import Collection, collect

KIND = "rank"
"""Kind of the studies of a batch: the same answers as those of ``planner rank``."""


def collected(
    sources: Sequence[str],
    sets: Sequence[str],
    cost_model: str | None,
    limits: Mapping[str, float | None],
) -> Collection:
    """Return the problems that ``sources`` name, all of them checked.

    ``sets``, ``cost_model`` and the ``limits`` that are given stand in place of what the files
    say. Raises ``SpecError`` with all that is wrong with any of them.
    """
    changes = [*sets, *([f"cost_model={cost_model}"] if cost_model else [])]
    found = collect(sources, changes, _check)
    given = {name: limit for name, limit in limits.items() if limit is not None}
    return replace(found, limit=found.limit.model_copy(update=given))


def _check(problem: Problem) -> None:
    check(problem)
    if problem.search.start_from is not None:
        raise SpecError.single(
            "search.start_from",
            problem.search.start_from,
            "problems of a batch are solved where no other study is at hand; leave it out",
        )


def define(collection: Collection) -> Definition:
    """Return what the batch of a collection is, and the key by which it is found again.

    The key is the hash of the name, of all problems with their labels and priorities, of the
    limits, and of what the answers depend on beside the problems.
    """
    items = [
        {
            "position": position,
            "label": dict(item.labels),
            "problem_hash": problem_hash(item.problem),
            "spec": json.loads(canonical_json(item.problem)),
            "priority": item.priority,
        }
        for position, item in enumerate(collection.items)
    ]
    asked = [[item["label"], item["problem_hash"], item["priority"]] for item in items]
    options = collection.limit.model_dump(mode="json")
    content = json.dumps([collection.name, asked, options, _grounds(collection)], sort_keys=True)
    key = hashlib.sha256(content.encode()).hexdigest()
    return Definition(collection.name, key, collection.definition, options, items)


def _grounds(collection: Collection) -> dict[str, dict[str, str]]:
    """Return what the answers of each cost model depend on beside the problem."""
    first = {item.problem.cost_model: item.problem for item in collection.items}
    return {name: grounds(problem) for name, problem in first.items()}


def run(
    batch: Batch, collection: Collection, store: Store, executor: Executor
) -> Generator[list[Row], None, None]:
    """Answer the problems of a batch that wait; yield rows once their new state is durable.

    Problems that a study of the store has answered come first. The others go to the executor,
    those of higher priority first, then by position.
    """
    tasks = _tasks(batch, collection)
    for found in batch.answered(list(tasks)):
        rows = [
            row | _answered(study, document)
            for study, document in found.items()
            for row in tasks.pop(study).rows
        ]
        batch.acknowledge(rows)
        yield rows
    queue = _Queue(sorted(tasks.values(), key=lambda task: task.place))
    for task, answer in _answers(executor, collection.limit, queue):
        if answer.digest and answer.document:
            inputs = {"source": f"batch {batch.id[:12]}", "executor": executor.name}
            with store.study(task.problem, inputs | {"command": "batch"}, KIND) as study:
                if not study.done:
                    study.finish(answer.digest, answer.document)
        ended = [row | _ended(task, answer) for row in task.rows]
        rows = [*queue.begun(), *ended]
        batch.acknowledge(rows)
        yield rows


@dataclass
class _Task:
    """A problem to solve, the id of its study, and the rows that wait for it."""

    problem: Problem
    study: str
    priority: int
    rows: list[Row]

    @property
    def place(self) -> tuple[int, int]:
        """What tasks are ordered by."""
        return -self.priority, self.rows[0]["position"]


def _tasks(batch: Batch, collection: Collection) -> dict[str, _Task]:
    """Return what waits, by study: equal problems are solved once."""
    depends = _grounds(collection)
    tasks: dict[str, _Task] = {}
    for row in batch.rows():
        if row["state"] != "waiting":
            continue
        item = collection.items[row["position"]]
        study = content_key(item.problem, depends[item.problem.cost_model], KIND)
        task = tasks.setdefault(study, _Task(item.problem, study, item.priority, []))
        task.rows.append(row)
        task.priority = max(task.priority, item.priority)
    return tasks


class _Queue(Sequence[Problem]):
    """The problems of tasks, in order; notes which of them were handed out."""

    def __init__(self, tasks: Sequence[_Task]) -> None:
        self.tasks = tasks
        self._handed = list[_Task]()

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, position: Any) -> Any:
        task = self.tasks[position]
        self._handed.append(task)
        return task.problem

    def begun(self) -> list[Row]:
        """Return the rows that were handed out since the last call."""
        rows = [row | {"state": "running"} for task in self._handed for row in task.rows]
        self._handed.clear()
        return rows


def _answers(
    executor: Executor, limit: BatchLimit, queue: _Queue
) -> Iterator[tuple[_Task, Answer]]:
    """Yield what becomes of each task; one that takes its workers down again and again failed."""
    while queue.tasks:
        ended = set[int]()
        try:
            for position, answer in executor.run(solve, limit, queue):
                ended.add(position)
                yield queue.tasks[position], answer
        except WorkerLost as lost:
            ended.add(lost.position)
            error = f"its workers died again and again, at last because {lost.why}"
            yield queue.tasks[lost.position], Answer("failed", 0.0, error=error)
        queue.tasks = [task for i, task in enumerate(queue.tasks) if i not in ended]


def _answered(study: str, document: Any) -> Row:
    """Return what becomes of a row whose problem a study has answered before."""
    state = "done" if document["plans"] else "infeasible"
    return {"state": state, "study_id": study, "answer": answer_of(document)}


def _ended(task: _Task, answer: Answer) -> Row:
    return {
        "state": answer.state,
        "study_id": task.study if answer.document else None,
        "seconds": answer.seconds,
        "error": answer.error,
        "answer": answer.summary,
    }
