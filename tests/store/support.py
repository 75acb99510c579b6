"""Small problems and answers for tests of the store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from results.ranking import Ranking
from results.store import Store
from searches.evaluate import space_of
from searches.executors import executor
from searches.exhaustive import Found, search
from specs.load import load_problem
from specs.problem import Problem

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/qwen3-32b-128k-hgx-h100.yaml"

INPUTS: dict[str, Any] = {"source": "test", "text": None, "sets": [], "executor": "local"}


def problem(*sets: str) -> Problem:
    return load_problem(EXAMPLE, sets)


@contextmanager
def opened(url: str) -> Iterator[Store]:
    store = Store.open(url)
    try:
        yield store
    finally:
        store.close()


def ranked(asked: Problem) -> Ranking:
    return Ranking(search(asked, executor("local")))


def keep(store: Store, asked: Problem) -> str:
    """Compute a problem and keep its answer; return the id of the study."""
    with store.study(asked, INPUTS) as study:
        if not study.done:
            ranking = ranked(asked)
            study.finish(ranking.found.digest, ranking.document())
        return study.id


def answer(store: Store, asked: Problem) -> dict[str, Any]:
    """Return the answer that the store holds, made anew from its table."""
    with store.study(asked, INPUTS) as study:
        assert study.done
        return Ranking(Found(space_of(asked), study.digest()), study.conflict()).document()
