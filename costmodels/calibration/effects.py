"""Which effects of a calibration hold for a plan, and what its terms then are."""

import re
from collections.abc import Mapping

from costmodels.calibration.terms import SETS, TERMS
from specs.calibration import Calibration, Subject
from specs.ffn import MoeFfn
from specs.problem import Problem

_RELEASE = re.compile(r"\d+(?:\.\d+){0,2}(?:\.?rc\d+)?")
_MONTH = re.compile(r"\d{4}-\d{2}")


def release_of(version: str | None) -> str | None:
    """Return the release that a version belongs to: ``0.5.6.post2`` to ``0.5.6``.

    A date of a build stands for its month. ``None`` if there is neither.
    """
    text = version or ""
    month = _MONTH.match(text)
    if month:
        return month.group()
    number = _RELEASE.search(text)
    return number.group() if number else None


def format_of(problem: Problem) -> str:
    """Return the format of the weights that take most room: of experts where there are any."""
    formats = problem.model.formats
    moe = any(isinstance(kind.ffn, MoeFfn) for kind in problem.model.kinds)
    return formats.experts.dtype if moe else formats.ffn.dtype


def subject_of(problem: Problem, drafting: bool) -> Subject:
    """Return everything that effects may ask of a plan in the problem's number format.

    A model whose name ends in its format is the model itself, published in that format.
    """
    engine, dtype = problem.engine, format_of(problem)
    return Subject(
        engine=engine.name if engine else None,
        card=problem.hardware.card.name,
        model=problem.model.name.removesuffix(f"-{dtype}"),
        format=dtype,
        release=release_of(engine.version) if engine else None,
        drafting=drafting,
    )


def holds(of: Subject, subject: Subject) -> bool:
    """Whether an effect of ``of`` holds for a subject."""
    return all(
        wanted is None or wanted == getattr(subject, name)
        for name in Subject.model_fields
        if (wanted := getattr(of, name)) is not None
    )


def values_for(calibration: Calibration, subject: Subject) -> dict[str, float]:
    """Return the value of every term for a plan."""
    found = {name: term.value for name, term in calibration.terms.items()}
    for effect in calibration.effects:
        if holds(effect.of, subject):
            _multiply(found, effect.factors)
    return {name: TERMS[name].bounded(value) for name, value in found.items()}


def _multiply(values: dict[str, float], factors: Mapping[str, float]) -> None:
    for name, factor in factors.items():
        for term in SETS[name]:
            values[term] *= factor
