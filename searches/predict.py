"""Estimate measured points: what a cost model says of deployments whose plan is known.

Points that differ in nothing but their plan share a problem and one table of plans. Nothing is
searched and no constraint is asked: that the plan works has been measured. Arrays have shape
``(points,)``; times are in seconds.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from constraints.axes import complete, domains
from costmodels.base import Checked, CostModel, cost_model
from costmodels.memory import largest_true
from costmodels.plans import BoolArray, FloatArray, IntArray, PlanTable, encode
from costmodels.sessions import Outcomes, steady
from costmodels.sessions.mix import Mix
from searches.exhaustive import Progress, tell_nobody
from specs.errors import SpecError
from specs.load import load_problem
from specs.points import Point, Refused
from specs.problem import Problem

ModelOf = Callable[[Point], CostModel]
"""Chooses the cost model of each point, e.g. one that was fitted without its fold."""


@dataclass(frozen=True)
class Predictions:
    """Estimates beside measured points, in the order of ``points``.

    ``tpot_s``, ``ttft_s``, ``tokens_per_s``  NaN where a point has no estimate; a decode pool or a
                                              load without prompts has no ``ttft_s``
    ``inside``  whether the point lies in the range that the cost model covers
    ``failed``  points without an estimate, and why
    """

    points: tuple[Point, ...]
    tpot_s: FloatArray
    ttft_s: FloatArray
    tokens_per_s: FloatArray
    inside: BoolArray
    failed: tuple[Refused, ...]


def named(name: str) -> ModelOf:
    """Choose the cost model of one name for all points."""
    model = cost_model(name)
    return lambda point: model


def predict(
    points: Sequence[Point], model_of: ModelOf, progress: Progress = tell_nobody
) -> Predictions:
    """Estimate every point; one that cannot be estimated is listed, with the reason."""
    found = {name: np.full(len(points), np.nan) for name in ("tpot_s", "ttft_s", "tokens_per_s")}
    inside = np.full(len(points), False)
    failed: list[Refused] = []
    done = 0
    for model, rows in _groups(points, model_of):
        for some, answer in _estimates(model, points, rows):
            if isinstance(answer, str):
                failed += [Refused(points[i].id, points[i].line, answer) for i in some]
                continue
            outcomes, covered = answer
            for name, column in found.items():
                column[some] = getattr(outcomes, name)
            inside[some] = covered
        done += len(rows)
        progress(done, len(points))
    found["ttft_s"][[bool(p.no_ttft) for p in points]] = np.nan
    return Predictions(tuple(points), **found, inside=inside, failed=tuple(failed))


def _groups(points: Sequence[Point], model_of: ModelOf) -> Iterator[tuple[CostModel, list[int]]]:
    """Yield positions of points that share a cost model and all of their spec but the plan."""
    groups: dict[tuple[int, str], tuple[CostModel, list[int]]] = {}
    for index, point in enumerate(points):
        model = model_of(point)
        spec = point.spec()
        shared = {key: value for key, value in spec.items() if key not in ("name", "space")}
        key = (id(model), json.dumps(shared, sort_keys=True))
        groups.setdefault(key, (model, []))[1].append(index)
    yield from groups.values()


Answer = tuple[Outcomes, BoolArray] | str


def _estimates(
    model: CostModel, points: Sequence[Point], rows: list[int]
) -> Iterator[tuple[list[int], Answer]]:
    """Yield the estimate of a group, or of each of its points where one spoils the whole."""
    try:
        yield rows, _estimate(model, [points[i] for i in rows])
    except SpecError as error:
        if len(rows) == 1:
            yield rows, str(error)
            return
        for row in rows:
            yield from _estimates(model, points, [row])


def _estimate(model: CostModel, points: Sequence[Point]) -> tuple[Outcomes, BoolArray]:
    """Estimate points that differ in their plan alone."""
    problem = problem_of(points)
    if isinstance(model, Checked):
        model.check(problem)
    plans = plans_of(problem, points)
    batch = batches(model, problem, plans)
    outcomes = steady.at_batch(model, problem, plans, batch)
    context = np.full(len(plans), Mix(problem).context)
    return outcomes, model.basis(problem, plans, batch, context).inside


def batches(model: CostModel, problem: Problem, plans: PlanTable) -> IntArray:
    """Sessions that an instance decodes together: all that it is given and that memory holds.

    A closed loop gives each instance its share; sessions beyond memory wait for their turn.
    Without a concurrency an instance decodes as many as memory holds. Where the estimate says that
    memory holds none, the measurement knows better, and the share is taken.
    """
    closed = problem.workload.concurrency is not None
    most = steady.most_sessions(problem, plans)

    def fits(batch: IntArray) -> BoolArray:
        return model.memory(problem, plans, steady.held(problem, plans, batch)).fits

    if closed and fits(most).all():
        return most
    held = largest_true(fits, most)
    return np.where(held > 0, held, most if closed else 1)


def problem_of(points: Sequence[Point]) -> Problem:
    """Return the problem of some points, its space the values that their plans have."""
    space = {
        axis: list(dict.fromkeys(point.axes[axis] for point in points)) for axis in points[0].axes
    }
    return load_problem(points[0].spec() | {"space": space})


def plans_of(problem: Problem, points: Sequence[Point]) -> PlanTable:
    """Return the plans of points; an axis that they do not state has its default."""
    chosen = domains(problem)
    columns = {
        axis: np.array([encode(axis, point.axes[axis]) for point in points])
        if axis in points[0].axes
        else np.full(len(points), values[0])
        for axis, values in chosen.items()
    }
    return complete(problem, columns)
