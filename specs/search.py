"""How the space is explored, where, and what a search may choose besides the plan."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from specs.base import Count, CountOrZero, Spec

MOST_TRIALS = 100_000

Scalar = bool | int | float | str
"""What one leaf may hold: a number in SI, a quantity with its unit, a word, or whether."""

Bound = int | float | str
"""A number in SI, or a quantity with its unit."""


class Variable(Spec):
    """The values that a search may give to one leaf: a range or a list."""

    low: Bound | None = None
    """Least value, in SI or with a unit."""
    high: Bound | None = None
    """Largest value."""
    log: bool = False
    """Whether equal ratios count alike, rather than equal differences."""
    step: Bound | None = None
    """Distance of neighbouring values from ``low`` on; all values in between if not given."""
    choices: Annotated[tuple[Scalar, ...], Field(min_length=1, max_length=1000)] | None = None
    """The values, in place of a range: numbers, quantities or words."""


def _named(value: object) -> object:
    """Let nothing stand for no variables, and a list for its choices."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return {k: {"choices": v} if isinstance(v, list | tuple) else v for k, v in value.items()}
    return value


Variables = Annotated[dict[str, Variable], BeforeValidator(_named)]


class Search(Spec):
    """How the space is explored, and where."""

    method: Literal["auto", "exhaustive", "optuna"] = "auto"
    """How the space is explored: every plan one by one, or some plans that a sampler chooses
    (``optuna``). ``auto`` samples where there are variables, or more than 10 million plans."""
    executor: str = "local"
    """``local``, ``processes[:N]`` or ``ray[:ADDRESS]``."""
    seed: CountOrZero = 0
    """Seed of a sampling search, and of the samples that stand in for very large spaces in the
    funnel and in conflicts."""
    keep: Count = 20_000
    """Plans that are kept of a larger space: so many of the best, beside the Pareto front and the
    nearest misses. A space of no more plans is kept whole."""
    variables: Variables = Field(default_factory=dict)
    """Leaves that a sampling search chooses besides the plan, by their paths, e.g. ``{PATH: {low:
    1 TB/s, high: 8 TB/s, log: true}}`` or ``{PATH: [1, 2, 4]}``."""
    trials: Annotated[int, Field(ge=1, le=MOST_TRIALS, strict=True)] = 500
    """What a sampling search tries at most; an exhaustive one tries all and does not read it."""
    sampler: Literal["tpe", "nsga2", "nsga3", "qmc", "random", "gp"] | None = None
    """How a sampling search chooses what it tries next. Default: ``tpe``, and ``nsga2`` for several
    objectives; ``gp`` needs PyTorch."""
    start_from: str | None = None
    """Study of the store whose best plans a sampling search tries first, by its id."""
