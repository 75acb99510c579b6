"""A calibration: what a fit to measured points found, as data.

Times are linear in *terms*: named inputs of the cost model, each a loss (peak over what is reached)
or a time. A term is its base times the factors of all *effects* that hold for a plan: of an
engine, a card, a model in a number format, a release, or of several of them together.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from specs.base import Count, CountOrZero, Name, Spec
from specs.units import Factor

Span = tuple[float, float]
"""Smallest and largest value in the data."""


class TermValue(Spec):
    """What was found for one term over all data."""

    value: Factor
    """Loss, or seconds."""
    interval: Span
    """Between which the value lies with 95 %."""
    prior: Factor
    """Where the fit is pulled to, from data sheets and measured kernels."""
    identified: bool
    """Whether the data say more of it than the prior does."""


class Subject(Spec):
    """Whose deviation an effect is; what is left out may be anything."""

    engine: Name | None = None
    """Name of the engine."""
    card: str | None = None
    """Name of the card."""
    model: Name | None = None
    """Name of the model."""
    format: Name | None = None
    """Format of the weights that take most room."""
    release: Name | None = None
    """Release of the engine, or month of a build without one."""
    drafting: bool | None = None
    """Whether tokens are drafted."""


class Effect(Spec):
    """A deviation from the base."""

    of: Subject
    """Whose it is."""
    factors: dict[str, Factor]
    """Factor on each term, or on each term of a named set."""


class FitError(Spec):
    """How far estimates are from points that the fit had not seen."""

    points: CountOrZero
    """Number of points."""
    mape: float
    """Mean absolute error as a share of what was measured."""
    median: float
    """Median of that."""
    p90: float
    """Its 90th percentile."""
    bias: float
    """Mean error."""


class Covered(Spec):
    """One engine on one card: what its data cover."""

    engine: Name
    """Name of the engine."""
    card: str
    """Name of the card."""
    points: Count
    """Measured points."""
    dates: str = ""
    """First and last date of the points that state one."""
    models: tuple[str, ...]
    """Models with the formats they were measured in, as ``model/format``."""
    batch: Span
    """Sessions that an instance decodes together."""
    context: Span
    """Tokens held by a session."""
    prompt: Span
    """Tokens of a prompt."""
    cards: Span
    """Cards of an instance."""
    attention_dp: Span
    """Batch shards of an instance."""
    ep: Span
    """Expert groups."""
    tpot: FitError
    """Cross-validated error of the time per token."""


class Calibration(Spec):
    """What a fit to measured points found."""

    name: Name
    """Name of the calibration."""
    title: str = ""
    """One line for people."""
    sources: Annotated[tuple[str, ...], Field(min_length=1)]
    """Where the points come from."""
    notice: str = ""
    """Notice that must go with the data."""
    date: str
    """Day of the fit."""
    points: Count
    """Points fitted."""
    data: str
    """First digits of the SHA-256 of the table of points."""
    residual: float
    """Standard deviation of what the fit leaves, as a share."""
    terms: dict[str, TermValue]
    """Every term."""
    effects: tuple[Effect, ...] = ()
    """Deviations."""
    covered: tuple[Covered, ...] = ()
    """What the data cover, by engine and card."""
    not_identified: tuple[str, ...] = ()
    """Terms of an engine on a card of which the data say no more than the prior."""

    @model_validator(mode="after")
    def _spans(self) -> Self:
        for name, term in self.terms.items():
            low, high = term.interval
            if not low <= term.value <= high:
                raise ValueError(f"terms.{name}: the interval must hold the value")
        return self

    def cover(self, engine: str, card: str) -> Covered | None:
        """Return what is covered of an engine on a card, if anything is."""
        return next((c for c in self.covered if (c.engine, c.card) == (engine, card)), None)
