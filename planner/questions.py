"""Questions about an answer: many tasks on an executor, whose parts a store keeps."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from searches.executors import Executor
from searches.exhaustive import Progress
from specs.problem import Problem

if TYPE_CHECKING:
    from results.store import Store

Document = dict[str, Any]

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


class Keep(Protocol):
    """Where finished parts of an answer are kept, as JSON values, and found again."""

    def known(self) -> Collection[int]:
        """Return the positions of the parts that are kept."""
        ...

    def load_part(self, index: int) -> Document:
        """Return a kept part."""
        ...

    def store_part(self, index: int, part: Document) -> None:
        """Keep a finished part; it is safe once this returns."""
        ...


class Nothing:
    """Keeps nothing."""

    def known(self) -> Collection[int]:
        return ()

    def load_part(self, index: int) -> Document:
        raise KeyError(index)

    def store_part(self, index: int, part: Document) -> None:
        """Forget the part."""


def ask(
    problem: Problem,
    kind: str,
    asked: Document,
    compute: Callable[[Keep], Document],
    store: "Store | None",
    inputs: Document,
) -> Document:
    """Return the answer to a question, from the store if it is there.

    Parameters
    ----------
    kind: the command that asks.
    asked: what beside the problem makes the question, as JSON values.
    compute: makes the answer; what it keeps on the way is there if it is interrupted.
    inputs: how the problem was stated, for the study that is kept.
    """
    if store is None:
        return compute(Nothing())
    with store.study(problem, {**inputs, "command": kind}, kind, asked) as study:
        if study.done:
            return study.document
        document = compute(study)
        study.answer(document)
        return document


def parts(
    executor: Executor,
    function: Callable[[S, T], R],
    shared: S,
    items: Sequence[T],
    document: Callable[[R], Document],
    keep: Keep,
    progress: Progress,
) -> list[Document]:
    """Return ``document(function(shared, item))`` of each item, in their order.

    Those that are kept already are not computed; the others are kept as they end.
    """
    found = {index: keep.load_part(index) for index in keep.known() if index < len(items)}
    progress(len(found), len(items))
    missing = [index for index in range(len(items)) if index not in found]
    for index, part in _finished(executor, function, shared, items, missing):
        found[index] = document(part)
        keep.store_part(index, found[index])
        progress(len(found), len(items))
    return [found[index] for index in range(len(items))]


def _finished(
    executor: Executor,
    function: Callable[[S, T], R],
    shared: S,
    items: Sequence[T],
    missing: Sequence[int],
) -> Iterator[tuple[int, R]]:
    for position, part in executor.run(function, shared, [items[index] for index in missing]):
        yield missing[position], part
