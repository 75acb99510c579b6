"""Step times that the user has measured, in place of estimates (6.7.3, step five).

``cost_model: measured:TABLE.csv`` takes the times of passes from a table
(``costmodels.measurements.table``); ``measured:TABLE.csv,base=NAME`` names the model that stands in
elsewhere, ``roofline`` if not given. Memory, and how a step splits into components, are those of
the base; its components are scaled so that they sum to the measured time.

With ``f`` the monotone surface through the times of a plan (``costmodels.measurements.surface``),
``b`` the estimate of the base, ``x`` a load and ``low`` and ``top`` the ends of the measured range,
column by column, the time of a pass is

- ``f(x)`` within the range;
- ``f(x') · b(max(x, top)) / b(top) · b(min(x, low)) / b(low)`` outside, *carried on*: ``x'`` is the
  nearest load in the range. Time neither jumps nor falls at the edge, whatever the ratio of ``f``
  to ``b`` does along it, and errs on the slow side;
- ``b(x) · r`` for a plan without rows, ``r`` the middle ratio of measurement to estimate.

Only the first lies inside the range of the table. Valid for the model, machine and software that
the table was measured with; the table does not say which. Error: the noise of the measurements.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from costmodels.base import Basis, Checked, MemoryEstimate, StepEstimate, carried, cost_model
from costmodels.measurements.compared import Compared, compared
from costmodels.measurements.matching import NONE
from costmodels.measurements.phase import Phase
from costmodels.measurements.table import read
from costmodels.plans import ONE_CARD, FloatArray, IntArray, PlanTable
from costmodels.remembered import remembered
from specs.errors import Fault, SpecError, nearest
from specs.problem import Problem

Load = FloatArray
"""What passes work on, shape ``(columns, plans)``; see ``costmodels.measurements.table.LOADS``."""


@dataclass(frozen=True)
class Options:
    """What stands after the colon."""

    table: str
    base: str = "roofline"
    sha256: str = ""

    @classmethod
    def parse(cls, text: str) -> "Options":
        """Read ``TABLE.csv,base=NAME``; raise ``ValueError`` that says what is wrong."""
        table, *rest = text.split(",")
        if not table or "=" in table:
            raise ValueError("name the table first, as in measured:TABLE.csv")
        given: dict[str, str] = {}
        for part in rest:
            name, equals, value = part.partition("=")
            if name not in ("base", "sha256") or not equals or not value:
                hint = nearest(name, ("base", "sha256"))
                raise ValueError(f"expected base=NAME after the table, got {part!r}. {hint}")
            given[name] = value
        if given.get("base", "").partition(":")[0] == MeasuredModel.name:
            raise ValueError("base must be another cost model")
        return cls(table, **given)


class MeasuredModel:
    """Step times from the user's own table; another model where it has none."""

    name = "measured"

    def __init__(self, options: str = "") -> None:
        chosen = Options.parse(options)
        self.base = cost_model(chosen.base)
        self.file = chosen.table
        found, digest, self.unfilled = read(Path(chosen.table))
        if chosen.sha256 not in ("", digest):
            message = f"has changed: its digest is {digest}, and {chosen.sha256} was asked for"
            raise SpecError([Fault("", "", message)], source=chosen.table)
        self.phases = {name: phase for name, rows in found.items() if (phase := Phase.of(rows))}
        # A search asks about the same problem, and the same plans, many times.
        self._compared = {name: remembered(self._compare(name)) for name in self.phases}
        self._ends = {
            (name, top): remembered(self._end(name, top))
            for name in self.phases
            for top in (False, True)
        }

    def check(self, problem: Problem) -> None:
        """Refuse rows that cannot have been measured in this problem: slips of a unit, outliers."""
        if isinstance(self.base, Checked):
            self.base.check(problem)
        compared_phases = [compare(problem, ONE_CARD) for compare in self._compared.values()]
        if faults := [fault for found in compared_phases for fault in found.faults]:
            raise SpecError(faults, source=self.file)

    def memory(self, problem: Problem, plans: PlanTable, held: FloatArray) -> MemoryEstimate:
        """Bytes of the base model."""
        return self.base.memory(problem, plans, held)

    def decode(
        self, problem: Problem, plans: PlanTable, batch: IntArray, context: FloatArray
    ) -> StepEstimate:
        """Time of one step, measured where the table has it."""
        estimate = self.base.decode(problem, plans, batch, context)
        load = np.stack([batch.astype(np.float64), context])
        return self._corrected("decode", problem, plans, load, estimate)

    def prefill(
        self,
        problem: Problem,
        plans: PlanTable,
        sequences: IntArray,
        tokens: FloatArray,
        prefix: FloatArray,
        remaining: FloatArray | None = None,
    ) -> StepEstimate:
        """Time of one pass that takes tokens in, measured where the table has it."""
        estimate = self.base.prefill(problem, plans, sequences, tokens, prefix, remaining)
        load = np.stack([sequences.astype(np.float64), tokens, prefix])
        return self._corrected("prefill", problem, plans, load, estimate)

    def carried(self, problem: Problem, plans: PlanTable) -> FloatArray:
        """Share of the time of prompts that steps carry, as the base model has it."""
        return carried(self.base, problem, plans)

    def basis(
        self, problem: Problem, plans: PlanTable, batch: IntArray, context: FloatArray
    ) -> Basis:
        """The table within its range, and what it makes of the base elsewhere."""
        under = self.base.basis(problem, plans, batch, context)
        notes = (*self._notes(problem), *under.notes)
        phase = self.phases.get("decode")
        if phase is None:
            return replace(under, inside=np.full(len(plans), False), notes=notes)
        found = self._compared["decode"](problem, ONE_CARD)
        load = np.stack([batch.astype(np.float64), context])
        group = phase.matching.groups(plans)
        bare, inside = group == NONE, phase.inside(group, load)
        factor = f"times {found.ratio:.3g}, the middle ratio in {self.file}"
        sources = (
            self.file,
            f"{self.file}, carried on beyond its range",
            *(f"{source}, {factor}" for source in under.sources),
        )
        return Basis(
            sources,
            np.where(bare, under.source + 2, np.where(inside, 0, 1)),
            inside,
            phase.distance(plans, group, load),
            np.where(bare, np.hypot(under.noise, found.scatter), phase.noise(group, load)),
            notes,
        )

    def _notes(self, problem: Problem) -> tuple[str, ...]:
        """What the table leaves open, and what was put right in it."""
        notes = []
        if self.unfilled:
            notes.append(f"{self.file}: rows without a time yet: {self.unfilled}.")
        prompts = any(c.prompt for c in problem.workload.classes)
        notes += [
            f"{self.file} has no {name} rows, so those times are estimates of {self.base.name}."
            for name, needed in (("decode", True), ("prefill", prompts))
            if needed and name not in self.phases
        ]
        for name, phase in self.phases.items():
            notes += [*phase.notes, *self._compared[name](problem, ONE_CARD).notes]
        return tuple(notes)

    def _corrected(
        self, name: str, problem: Problem, plans: PlanTable, load: Load, estimate: StepEstimate
    ) -> StepEstimate:
        """Scale an estimate to the measured time, component by component."""
        phase = self.phases.get(name)
        if phase is None or not len(plans):
            return estimate
        group = phase.matching.groups(plans)
        factor = np.full(len(plans), self._compared[name](problem, ONE_CARD).ratio)
        own = np.flatnonzero(group != NONE)
        held = phase.surfaces.clamped(group[own], load[:, own])
        seconds = phase.surfaces.at(group[own], held)
        if (held != load[:, own]).any():
            seconds *= self._growth(name, problem, plans, group, load)[own]
        factor[own] = seconds / estimate.seconds[own]
        components = {part: column * factor for part, column in estimate.components.items()}
        return replace(estimate, components=components, follows=estimate.follows * factor)

    def _growth(
        self, name: str, problem: Problem, plans: PlanTable, group: IntArray, load: Load
    ) -> FloatArray:
        """Factor by which the base grows from the edge of the range to a load beyond it."""
        growth: FloatArray = np.ones(len(plans))
        for top, outer in ((False, np.minimum), (True, np.maximum)):
            end = self._loads_at_end(name, group, top)
            there = outer(load, end)
            rows = np.flatnonzero((there != end).any(axis=0) & (group != NONE))
            if rows.size:
                edge = self._ends[name, top](problem, plans)[rows]
                seconds = self._seconds(name, problem, plans.take(rows), there[:, rows])
                growth[rows] *= seconds / edge
        return growth

    def _loads_at_end(self, name: str, group: IntArray, top: bool) -> Load:
        """Load at one end of the range of each plan; that of some group for a plan without rows."""
        return self.phases[name].end(np.maximum(group, 0), top)

    def _end(self, name: str, top: bool) -> Callable[[Problem, PlanTable], FloatArray]:
        """Return the seconds that the base gives plans at one end of their range."""

        def seconds(problem: Problem, plans: PlanTable) -> FloatArray:
            group = self.phases[name].matching.groups(plans)
            return self._seconds(name, problem, plans, self._loads_at_end(name, group, top))

        return seconds

    def _compare(self, name: str) -> Callable[[Problem, PlanTable], Compared]:
        """Return how the rows of a phase stand to the base in a problem, whatever the plans."""

        def against(problem: Problem, _: PlanTable) -> Compared:
            return compared(
                self.phases[name],
                problem,
                lambda plans, load: self._seconds(name, problem, plans, load),
            )

        return against

    def _seconds(self, name: str, problem: Problem, plans: PlanTable, load: Load) -> FloatArray:
        """Seconds that the base gives plans at a load."""
        batch = load[0].astype(np.int64)
        if name == "decode":
            return self.base.decode(problem, plans, batch, load[1]).seconds
        return self.base.prefill(problem, plans, batch, load[1], load[2]).seconds
