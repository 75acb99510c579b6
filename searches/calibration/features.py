"""What measured points say of the terms: times, and how they grow with each term.

The time of a point is linear in its terms, up to the choice of an algorithm, so its derivatives at
any values say all. They are taken by differences of the cost model itself: a fit can then never
disagree with what is estimated later. Arrays have shape ``(points,)`` or ``(points, terms)``.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from costmodels.calibration.effects import subject_of
from costmodels.calibration.terms import CARRIED, PRIORS, TERMS, apply
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.precision import by_format
from costmodels.roofline import RooflineModel
from costmodels.sessions.steady import SteadyLoad
from searches.exhaustive import Progress, tell_nobody
from searches.predict import batches, plans_of, problem_of
from specs.calibration import Subject
from specs.errors import SpecError
from specs.points import Point, Refused
from specs.problem import Problem

_STEP = 1.01
"""Factor by which a term is changed to see what it does."""


@dataclass(frozen=True)
class Features:
    """Points with their derivatives.

    ``step``    seconds of a decode step for each token, for each unit of each term
    ``prompts`` seconds of other prompts for each token, likewise
    ``ttft``    seconds to the first token, likewise; NaN where it is not estimated
    ``batch``   sessions that an instance decodes together
    ``cards``   cards of an instance
    """

    points: tuple[Point, ...]
    subjects: tuple[Subject, ...]
    step: FloatArray
    prompts: FloatArray
    ttft: FloatArray
    batch: IntArray
    cards: IntArray
    failed: tuple[Refused, ...] = ()

    @property
    def tpot(self) -> FloatArray:
        """Slopes of the time per token where steps carry all prompts."""
        return self.step + self.prompts

    def take(self, rows: Sequence[int] | IntArray) -> "Features":
        """Return some points."""
        index = np.asarray(rows, dtype=np.int64)
        return Features(
            tuple(self.points[i] for i in index),
            tuple(self.subjects[i] for i in index),
            self.step[index],
            self.prompts[index],
            self.ttft[index],
            self.batch[index],
            self.cards[index],
            self.failed,
        )


def features(
    points: Sequence[Point],
    progress: Progress = tell_nobody,
    *,
    values: Callable[[Subject], Mapping[str, float]] = lambda subject: PRIORS,
) -> Features:
    """Return the derivatives of all points, at the terms that ``values`` gives for each.

    A point that cannot be estimated is listed in ``failed`` and left out.
    """
    model = RooflineModel()
    slopes = np.full((3, len(points), len(TERMS)), np.nan)
    batch, cards = np.zeros(len(points), np.int64), np.zeros(len(points), np.int64)
    subjects: dict[int, Subject] = {}
    failed: list[Refused] = []
    done = 0
    for rows in _alike(points):
        some = [points[i] for i in rows]
        try:
            batch[rows] = _decoding(model, some)
            problem = problem_of(some)
            plans = plans_of(problem, some)
        except SpecError as error:
            failed += [Refused(points[i].id, points[i].line, str(error)) for i in rows]
            continue
        cards[rows] = plans.cards
        for at in _one_subject(problem, plans):
            subject = _subject(problem, plans, at)
            here = [rows[i] for i in at]
            subjects |= dict.fromkeys(here, subject)
            slopes[:, here] = _slopes(model, problem, plans.take(at), batch[here], values(subject))
        done += len(rows)
        progress(done, len(points))
    slopes[2, [bool(point.no_ttft) for point in points]] = np.nan
    kept = sorted(subjects)
    return Features(
        tuple(points[i] for i in kept),
        tuple(subjects[i] for i in kept),
        step=slopes[0, kept],
        prompts=slopes[1, kept],
        ttft=slopes[2, kept],
        batch=batch[kept],
        cards=cards[kept],
        failed=tuple(failed),
    )


def _alike(points: Sequence[Point]) -> Iterator[list[int]]:
    """Yield positions of points that differ in plan and concurrency alone."""
    groups: dict[str, list[int]] = {}
    for index, point in enumerate(points):
        spec = point.spec()
        shared = {key: value for key, value in spec.items() if key not in ("name", "space")}
        workload = {k: v for k, v in spec["workload"].items() if k != "concurrency"}
        key = json.dumps(shared | {"workload": workload}, sort_keys=True)
        groups.setdefault(key, []).append(index)
    yield from groups.values()


def _decoding(model: RooflineModel, points: Sequence[Point]) -> IntArray:
    """Sessions that an instance of each point decodes together."""
    found = np.zeros(len(points), np.int64)
    for concurrency in {point.concurrency for point in points}:
        rows = [i for i, point in enumerate(points) if point.concurrency == concurrency]
        same = [points[i] for i in rows]
        problem = problem_of(same)
        found[rows] = batches(model, problem, plans_of(problem, same))
    return found


def _one_subject(problem: Problem, plans: PlanTable) -> Iterator[IntArray]:
    """Yield the rows of each number format, drafting or not."""
    keys = plans.precision * 2 + (plans.mtp > 0)
    for key in np.unique(keys):
        yield np.flatnonzero(keys == key)


def _subject(problem: Problem, plans: PlanTable, rows: IntArray) -> Subject:
    here = by_format(problem, plans.take(rows[:1]))[0].problem
    return subject_of(here, bool(plans.mtp[rows[0]]))


def _slopes(
    model: RooflineModel,
    problem: Problem,
    plans: PlanTable,
    batch: IntArray,
    values: Mapping[str, float],
) -> FloatArray:
    """Derivatives of step, prompts and time to the first token, shape ``(3, plans, terms)``.

    The session is one that need not wait.
    """
    open_load = problem.workload.model_copy(update={"concurrency": None})
    problem = problem.model_copy(update={"workload": open_load})
    generate = float(problem.workload.classes[0].generate)

    def times(changed: Mapping[str, float]) -> FloatArray:
        # Half of the prompts carried: what they take shows in both parts of the pace.
        half = apply(problem, {**changed, CARRIED: 0.5})
        pace = SteadyLoad(model, half, plans).pace(batch)
        prompts = 2 * pace.idle / generate
        return np.array([pace.tpot - prompts / 2, prompts, pace.ttft.max(axis=0)])

    base = times(values)
    found = np.zeros((3, len(plans), len(TERMS)))
    for column, (name, value) in enumerate(values.items()):
        if name != CARRIED:
            changed = times({**values, name: value * _STEP})
            found[:, :, column] = (changed - base) / (value * (_STEP - 1))
    return found
