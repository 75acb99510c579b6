"""The calibrated cost model: the roofline with inputs that were fitted to measured serving.

``cost_model: calibrated`` uses the calibration of the catalogue, ``calibrated:NAME`` another entry,
``calibrated:FILE.yaml`` one that ``planner calibrate`` has written. For the engine and card of a
problem it says what share of each peak is reached and what time passes beside
(``costmodels.calibration.terms``); reads and computing add up. Memory is that of the roofline.

Valid for engines on cards that the data cover; ``basis`` says how far a plan is from them and what
the cross-validated error is. Where nothing covers the engine on the card all plans have the
roofline's times: within one table, plans are never compared across the two.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from costmodels.base import Basis, MemoryEstimate, StepEstimate
from costmodels.calibration.effects import subject_of, values_for
from costmodels.calibration.terms import SETS, TERMS, apply
from costmodels.plans import BoolArray, FloatArray, IntArray, PlanTable
from costmodels.precision import by_format, joined_steps
from costmodels.remembered import remembered
from costmodels.roofline import RooflineModel
from specs import catalog, faults
from specs.calibration import Calibration, Covered, Subject
from specs.documents import read_file
from specs.errors import SpecError, nearest
from specs.load import CALIBRATION
from specs.problem import Problem

_EDGE = 0.1
"""Logarithm by which a plan may lie beyond the data and still count as inside."""


@dataclass(frozen=True)
class _Part:
    """Plans of one table whose terms have the same values."""

    problem: Problem
    plans: PlanTable
    rows: IntArray
    subject: Subject


class CalibratedModel:
    """Roofline times with fitted inputs."""

    name = "calibrated"

    def __init__(self, options: str | Calibration = CALIBRATION) -> None:
        self.calibration = load(options) if isinstance(options, str) else options
        self.roofline = RooflineModel()
        self._parts = remembered(self._divided)

    def _divided(self, problem: Problem, plans: PlanTable) -> tuple[_Part, ...]:
        """Plans by number format, and by whether they draft, with the inputs of each."""
        found = []
        for same in by_format(problem, plans):
            drafting = plans.mtp[same.rows] > 0
            for wanted in np.unique(drafting):
                rows = same.rows[drafting == wanted]
                some = plans if rows.size == len(plans) else plans.take(rows)
                subject = subject_of(same.problem, bool(wanted))
                here = problem
                if self.cover(problem) is not None:
                    here = apply(problem, values_for(self.calibration, subject))
                found.append(_Part(here, some, rows, subject))
        return tuple(found)

    def cover(self, problem: Problem) -> Covered | None:
        """Return what the data say of the problem's engine on its card."""
        engine = problem.engine
        if engine is None:
            return None
        return self.calibration.cover(engine.name, problem.hardware.card.name)

    def _each(
        self,
        problem: Problem,
        plans: PlanTable,
        estimate: Callable[[Problem, PlanTable, IntArray], StepEstimate],
    ) -> StepEstimate:
        parts = [
            (part.rows, estimate(part.problem, part.plans, part.rows))
            for part in self._parts(problem, plans)
        ]
        return parts[0][1] if len(parts) == 1 else joined_steps(len(plans), parts)

    def memory(self, problem: Problem, plans: PlanTable, held: FloatArray) -> MemoryEstimate:
        """Bytes on the fullest card; see ``costmodels.memory.estimate``."""
        return self.roofline.memory(problem, plans, held)

    def decode(
        self, problem: Problem, plans: PlanTable, batch: IntArray, context: FloatArray
    ) -> StepEstimate:
        """Time of one step of each session of the batch."""
        return self._each(
            problem,
            plans,
            lambda here, some, rows: self.roofline.decode(here, some, batch[rows], context[rows]),
        )

    def prefill(
        self,
        problem: Problem,
        plans: PlanTable,
        sequences: IntArray,
        tokens: FloatArray,
        prefix: FloatArray,
        remaining: FloatArray | None = None,
    ) -> StepEstimate:
        """Time of one pass that takes in ``tokens`` tokens of each of ``sequences`` sessions."""
        left = np.zeros(len(plans)) if remaining is None else remaining
        return self._each(
            problem,
            plans,
            lambda here, some, rows: self.roofline.prefill(
                here, some, sequences[rows], tokens[rows], prefix[rows], left[rows]
            ),
        )

    def carried(self, problem: Problem, plans: PlanTable) -> FloatArray:
        """Share of the time of prompts that decode steps carry; see ``Assumptions.carried``."""
        found = np.empty(len(plans))
        for part in self._parts(problem, plans):
            found[part.rows] = part.problem.assumptions.carried
        return found

    def basis(
        self, problem: Problem, plans: PlanTable, batch: IntArray, context: FloatArray
    ) -> Basis:
        """The calibration, how far each plan is from its data, and what the data lack."""
        cover = self.cover(problem)
        if cover is None:
            return self._uncovered(problem, len(plans))
        known = np.full(len(plans), True)
        unseen: dict[str, None] = {}
        for part in self._parts(problem, plans):
            kind = f"{part.subject.model}/{part.subject.format}"
            if kind not in cover.models:
                known[part.rows] = False
                unseen[kind] = None
        distance = np.max(
            [
                _outside(batch, cover.batch),
                _outside(context, cover.context),
                _outside(plans.cards, cover.cards),
                _outside(plans.attention_dp, cover.attention_dp),
                _outside(plans.ep, cover.ep),
            ],
            axis=0,
        )
        inside: BoolArray = known & (distance <= _EDGE)
        notes = [
            f"The data of {cover.engine} on {cover.card} hold no {kind}: it is taken as the "
            f"average of what they hold."
            for kind in unseen
        ]
        return Basis(
            (self._source(cover),),
            np.zeros(len(plans), dtype=np.int64),
            inside,
            distance,
            np.zeros(len(plans)),
            tuple(notes),
        )

    def _source(self, cover: Covered) -> str:
        found = self.calibration
        judged = "not judged by points that the fit had not seen"
        if cover.tpot.points:
            off = f"{100 * cover.tpot.mape:.0f} %"
            judged = f"time per token off by {off} on average where it was not fitted"
        return (
            f"calibration {found.name} of {found.date}: {cover.engine} on {cover.card}, "
            f"{cover.points:,} points, {judged}"
        )

    def _uncovered(self, problem: Problem, plans: int) -> Basis:
        engine = problem.engine.name if problem.engine else "no engine"
        source = f"roofline: calibration {self.calibration.name} does not cover {engine} on "
        found = Basis.of_formula(source + problem.hardware.card.name, plans)
        return Basis(
            found.sources,
            found.source,
            np.full(plans, False),
            found.distance,
            found.noise,
            (f"No measurement covers {engine} on {problem.hardware.card.name}: times are those "
             f"of the roofline, which measured serving exceeds.",),
        )  # fmt: skip


def _outside(values: IntArray | FloatArray, span: tuple[float, float]) -> FloatArray:
    """Logarithm of the factor by which values lie outside a span; 0 inside."""
    low, high = np.log(np.maximum(span, 1e-300))
    logs = np.log(np.maximum(values, 1e-300))
    found: FloatArray = np.maximum(np.maximum(low - logs, logs - high), 0.0)
    return found


def load(options: str) -> Calibration:
    """Return a calibration by its name in the catalogue, or from a file.

    Raises ``SpecError`` for a name or a file that is not there, and for wrong content.
    """
    name, *_ = options.split(",")
    return _loaded(name)


@lru_cache(maxsize=8)
def _loaded(name: str) -> Calibration:
    file = name.endswith((".yaml", ".yml"))
    raw = read_file(Path(name)) if file else catalog.entry("calibrations", name)
    try:
        found = Calibration.model_validate(raw)
    except ValidationError as error:
        raise faults.spec_error(error, raw, Calibration) from None
    _check_names(found)
    return found


def _check_names(found: Calibration) -> None:
    """Refuse terms and sets that the cost model does not know, and terms that are missing."""
    for name in found.terms:
        if name not in TERMS:
            raise SpecError.single(f"terms.{name}", None, "no such term", nearest(name, TERMS))
    if missing := [name for name in TERMS if name not in found.terms]:
        raise SpecError.single("terms", None, f"missing: {', '.join(missing)}")
    for index, effect in enumerate(found.effects):
        for name in effect.factors:
            if name not in SETS:
                path = f"effects[{index}].factors.{name}"
                raise SpecError.single(path, None, "no such set of terms", nearest(name, SETS))
