"""The variables of a search: leaves of the spec and the values that each may take, checked."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from searches.variants import changed
from specs import paths
from specs.errors import SpecError
from specs.problem import Problem
from specs.search import Scalar, Variable

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_FIXED = ("name", "search", "objective", "cost_model")
"""Parts of a spec that are no figures of what is deployed."""


@dataclass(frozen=True)
class Range:
    """Numbers between two ends, in SI. ``step``: distance of those that are tried, if only some."""

    path: str
    low: float
    high: float
    log: bool
    step: float | None
    whole: bool

    def holds(self, value: Scalar) -> bool:
        """Whether a value lies between the ends."""
        return isinstance(value, int | float) and self.low <= value <= self.high


@dataclass(frozen=True)
class Listed:
    """Values one by one."""

    path: str
    choices: tuple[Scalar, ...]

    def holds(self, value: Scalar) -> bool:
        """Whether a value is listed."""
        return value in self.choices


def distribution(variable: Range | Listed) -> "BaseDistribution":
    """Return what a sampler is told of a variable."""
    from optuna import distributions as of

    if isinstance(variable, Listed):
        return of.CategoricalDistribution(variable.choices)
    low, high, log, step = variable.low, variable.high, variable.log, variable.step
    if variable.whole:
        return of.IntDistribution(int(low), int(high), log=log, step=int(step or 1))
    return of.FloatDistribution(low, high, log=log, step=step)


def variables_of(problem: Problem) -> tuple[Range | Listed, ...]:
    """Return the variables of a problem.

    Raises ``SpecError`` for a path that leads nowhere, a range that is none, and a value that the
    spec refuses there.
    """
    return tuple(_checked(problem, path, said) for path, said in problem.search.variables.items())


def _checked(problem: Problem, path: str, said: Variable) -> Range | Listed:
    where = f"search.variables.{path}"
    if path.partition(".")[0] in _FIXED:
        raise SpecError.single(where, None, "is no figure of the model, the machine or the load")
    if _held(problem, path) is None:
        raise SpecError.single(where, None, "is not set", "Set it to one of its values")
    ends = said.low, said.high
    if said.choices is not None:
        if ends != (None, None) or said.step is not None or said.log:
            raise SpecError.single(where, None, "takes choices, or low and high, not both")
        return _listed(problem, path, said.choices)
    if said.low is None or said.high is None:
        lacking = "low" if said.low is None else "high"
        raise SpecError.single(f"{where}.{lacking}", None, "needed, or choices in place of a range")
    low, high = _number(problem, path, said.low, "low"), _number(problem, path, said.high, "high")
    if not low < high:
        raise SpecError.single(where, f"{said.low} to {said.high}", "low must be less than high")
    if said.log and low <= 0:
        raise SpecError.single(f"{where}.low", said.low, "must be above 0 where log is true")
    whole = isinstance(low, int) and isinstance(high, int)
    return Range(path, low, high, said.log, _step(problem, path, said, low, high), whole)


def _step(problem: Problem, path: str, said: Variable, low: float, high: float) -> float | None:
    """Return the distance of neighbouring values; it is no value of the leaf, but has its unit."""
    where = f"search.variables.{path}.step"
    if said.step is None:
        return None
    if said.log:
        raise SpecError.single(where, said.step, "goes with equal differences, not with log")
    step = said.step
    if isinstance(step, str):
        step = _number(problem, path, step, "step")
    if not 0 < step <= high - low:
        raise SpecError.single(where, said.step, f"must be above 0, at most {high - low:g}")
    return step


def _number(problem: Problem, path: str, end: object, name: str) -> int | float:
    """Return one end of a range in SI, as the leaf would hold it."""
    value = _put(problem, path, end, name)
    if isinstance(value, tuple) and len(value) == 1:
        (value,) = value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        where = f"search.variables.{path}"
        raise SpecError.single(where, end, "is no number there", "List its values as choices")
    return value


def _listed(problem: Problem, path: str, choices: tuple[Scalar, ...]) -> Listed:
    found: list[Scalar] = []
    for position, choice in enumerate(choices):
        name = f"choices[{position}]"
        value = _put(problem, path, choice, name)
        # A quantity is kept in SI, a name that stands for a whole part as it is.
        found.append(value if isinstance(value, int | float) else choice)
    if len(set(found)) < len(found):
        where = f"search.variables.{path}.choices"
        raise SpecError.single(where, list(choices), "names a value twice")
    return Listed(path, tuple(found))


def _held(problem: Problem, path: str) -> object:
    """Return what stands at a path."""
    try:
        return paths.get(problem, path)
    except SpecError as error:
        fault = error.faults[0]
        where = f"search.variables.{path}"
        message = fault.message if fault.path == path else f"{fault.path}: {fault.message}"
        raise SpecError.single(where, None, message, fault.hint) from None


def _put(problem: Problem, path: str, value: object, name: str) -> object:
    """Return what stands at a path once a value is put there."""
    try:
        return paths.get(changed(problem, {path: value}), path)
    except SpecError as error:
        fault = error.faults[0]
        message = fault.message if fault.path == path else f"{fault.path}: {fault.message}"
        where = f"search.variables.{path}.{name}"
        raise SpecError.single(where, fault.value or value, message, fault.hint) from None
