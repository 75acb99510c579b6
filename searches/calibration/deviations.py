"""The deviations that a fit allows, and how far each may go before it costs more than it explains.

Every term has a base over all data. Engines, cards, both together, models in a number format and
releases may deviate from it: by single terms where many points tell them apart, else by sets of
terms. What few points say stays near 0 by its spread, so that models of one engine and card share
what they can (partial pooling, as in Gelman and Hill, *Data Analysis Using Regression and
Multilevel/Hierarchical Models*, chapter 12).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodels.calibration.terms import CARRIED, SETS, TERMS
from costmodels.plans import FloatArray, IntArray
from specs.calibration import Subject

BASE_SPREAD = 0.6
"""Standard deviation of the logarithm of a base about its prior."""


@dataclass(frozen=True)
class Deviation:
    """One kind of deviation.

    ``fields``  what of a subject it depends on
    ``sets``    names of the sets of terms that deviate together
    ``spread``  standard deviation of its logarithm
    """

    fields: tuple[str, ...]
    sets: tuple[str, ...]
    spread: float


_EACH = tuple(name for name in TERMS if name != CARRIED)
_PHASES = ("decode", "prefill")
_PARTS = ("dense", "experts", "attention", "launch")

DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(("engine",), _EACH, 0.2),
    Deviation(("card",), _EACH, 0.2),
    Deviation(("engine", "card"), _EACH, 0.15),
    Deviation(("model", "format"), _PHASES, 0.6),
    Deviation(("model", "format"), _PARTS, 0.35),
    Deviation(("model", "format", "engine", "card"), _PHASES, 0.5),
    Deviation(("model", "format", "engine", "card"), _PARTS, 0.25),
    Deviation(("engine", "card"), (CARRIED,), 0.5),
    Deviation(("model", "engine", "card"), (CARRIED,), 0.3),
    Deviation(("engine", "release"), _PHASES, 0.35),
    Deviation(("engine", "drafting"), ("decode",), 0.6),
)
"""All deviations. Spreads were chosen once, by cross-validation over the shipped points."""


@dataclass(frozen=True)
class Block:
    """A deviation among some subjects.

    ``of``     each subject that deviates, in the order of ``code``
    ``code``   position in ``of`` of every observation; -1 where a field is unknown
    ``terms``  which terms each set multiplies, shape ``(sets, terms)``
    ``start``  position of its first parameter
    """

    deviation: Deviation
    of: tuple[Subject, ...]
    code: IntArray
    terms: FloatArray
    start: int

    @property
    def size(self) -> int:
        """Number of parameters."""
        return len(self.of) * len(self.terms)


def membership(sets: Sequence[str]) -> FloatArray:
    """Return which terms each set holds, shape ``(sets, terms)``."""
    return np.array([[float(term in SETS[name]) for term in TERMS] for name in sets])


def blocks(subjects: Sequence[Subject]) -> tuple[Block, ...]:
    """Return the deviations that occur among some subjects; parameters start after the bases."""
    found: list[Block] = []
    start = len(TERMS)
    for deviation in DEVIATIONS:
        positions: dict[Subject, int] = {}
        code = np.array(
            [_code(_part(s, deviation.fields), positions) for s in subjects], dtype=np.int64
        )
        block = Block(deviation, tuple(positions), code, membership(deviation.sets), start)
        if block.size:
            found.append(block)
        start += block.size
    return tuple(found)


def _code(part: Subject | None, positions: dict[Subject, int]) -> int:
    return -1 if part is None else positions.setdefault(part, len(positions))


def _part(subject: Subject, fields: tuple[str, ...]) -> Subject | None:
    """Return the part of a subject that a deviation depends on; ``None`` if it lacks a field."""
    values = {name: getattr(subject, name) for name in fields}
    if values.get("drafting") is False or None in values.values():
        return None
    return Subject(**values)
