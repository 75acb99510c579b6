"""Rules between axes that a user writes in ``space.where``: ``ep == attention_dp``, ``tp <= 8``."""

import operator
import re
from collections.abc import Callable

import numpy as np

from constraints.base import Case, Constraint
from costmodels.collectives.domains import domain_sizes
from costmodels.plans import WORDS, BoolArray, FloatArray, IntArray
from specs.errors import SpecError, nearest
from specs.space import AXES

_COMPARE: dict[str, Callable[[IntArray, IntArray], BoolArray]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_RULE = re.compile(r"^(.+?)(==|!=|<=|>=|<|>)(.+)$")
_GRAMMAR = "expected AXIS or a whole number, products with *, and one of == != <= >= < >"


def _factors(text: str, path: str, rule: str) -> list[str | int]:
    factors: list[str | int] = []
    for word in (part.strip() for part in text.split("*")):
        if word.isascii() and word.isdigit():
            factors.append(int(word))
        elif word in AXES and word not in WORDS:
            factors.append(word)
        else:
            hint = nearest(word, set(AXES) - set(WORDS)) if word else ""
            raise SpecError.single(path, rule, f"{word!r} is no axis of numbers; {_GRAMMAR}", hint)
    return factors


def _product(factors: list[str | int], case: Case) -> IntArray:
    value = np.ones(len(case.plans), dtype=np.int64)
    for factor in factors:
        if factor == "domain":
            # A plan that chooses none has the one that the machine is built with.
            value = value * domain_sizes(case.problem.hardware, case.plans)[0]
        else:
            value = value * (case.plans.column(factor) if isinstance(factor, str) else factor)
    return value


class Where(Constraint):
    """One rule between axes, as the user wrote it."""

    unit = "difference"

    def __init__(self, rule: str, index: int) -> None:
        path = f"space.where[{index}]"
        match = _RULE.match(rule.strip())
        if not match:
            raise SpecError.single(path, rule, f"not a rule between axes; {_GRAMMAR}")
        self.name = f"where {rule.strip()}"
        self.title = f"The rule {rule.strip()} of the spec holds"
        self._left, self._right = (_factors(match[i], path, rule) for i in (1, 3))
        self._holds = _COMPARE[match[2]]
        factors = self._left + self._right
        self.reads = tuple(name for name in AXES if name in factors)

    def margin(self, case: Case) -> FloatArray:
        left, right = (_product(f, case) for f in (self._left, self._right))
        apart = np.maximum(np.abs(left - right), 1)
        return np.where(self._holds(left, right), 0, -apart).astype(np.float64)

    def reason(self, case: Case) -> str:
        left, right = (int(_product(f, case)[0]) for f in (self._left, self._right))
        return f"the rule {self.name.removeprefix('where ')} does not hold: {left} against {right}"
