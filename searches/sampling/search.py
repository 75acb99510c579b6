"""Try some plans of a space, or some values of variables, as a sampler proposes them.

A search asks for a batch of trials, has them priced by an executor, and tells the sampler, again
and again. It is determined by the problem and its seed. So one that was interrupted is simply run
again: what the sampler is told of finished batches comes from the sink, and it asks the same.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from searches import figures
from searches.digest import Digest
from searches.evaluate import space_of
from searches.executors import Executor
from searches.exhaustive import ChunkSink, NoSink, Progress, tell_nobody
from searches.sampling import samplers
from searches.sampling.dialogue import Asked, Dialogue
from searches.sampling.pricing import Ask, price_plans, price_variant
from searches.sampling.trials import Sampled, Tried
from searches.sampling.variables import variables_of
from specs.problem import Problem


@runtime_checkable
class Watcher(Protocol):
    """Progress of which the best cost so far is a part."""

    def best(self, cost: float) -> None:
        """Take note of the best cost so far."""
        ...


def check(problem: Problem) -> None:
    """Raise ``SpecError`` for variables, a sampler or objectives that cannot be searched."""
    figures.check(problem)
    variables_of(problem)
    samplers.check(problem)


def sample(
    problem: Problem,
    executor: Executor,
    progress: Progress = tell_nobody,
    sink: ChunkSink | None = None,
    first: Sequence[Tried] = (),
) -> Sampled:
    """Search by sampling; the best plan is the best of those tried, and no more.

    The executor prices trials that set variables.

    ``first``: what is tried before the sampler is asked, as far as the space has it.
    """
    check(problem)
    space = space_of(problem)
    kept: ChunkSink = sink or NoSink()
    known, total = set(kept.known()), problem.search.trials
    dialogue = Dialogue(space, first)
    parts = [_nothing(dialogue)]
    watcher: object = progress
    progress(0, total)
    for number, asked in enumerate(dialogue.batches()):
        digest = kept.load(number) if number in known else _priced(dialogue, asked, executor)
        dialogue.tell(asked, digest)
        parts.append(digest)
        if number not in known:
            kept.store(number, digest)
        if isinstance(watcher, Watcher) and np.isfinite(dialogue.best):
            watcher.best(dialogue.best)
        progress(len(dialogue.trials), total)
    return Sampled(space, Digest.merge(space, parts), tuple(dialogue.trials))


def _nothing(dialogue: Dialogue) -> Digest:
    return Digest.of(dialogue.space, np.zeros(0, dtype=np.int64))


def _priced(dialogue: Dialogue, asked: Sequence[Asked], executor: Executor) -> Digest:
    """Price those trials of a batch that repeat no other one."""
    fresh = [each for each in asked if each.fresh]
    space, goal = dialogue.space, dialogue.goal
    if not dialogue.paths:
        # Some plans of one problem are priced faster than a task is handed out.
        rows = np.array(sorted(each.row for each in fresh), dtype=np.int64)
        parts = [price_plans(space, rows, goal)]
    else:
        asks = [Ask(e.row, dialogue.changes(e), dialogue.columns(e), goal) for e in fresh]
        answers = dict(executor.run(price_variant, space.problem, asks))
        parts = [part for _, part in sorted(answers.items()) if part is not None]
    return Digest.merge(space, [_nothing(dialogue), *parts])
