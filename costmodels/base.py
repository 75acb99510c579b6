"""The plug of a cost model: what it is asked, and what it answers.

All arrays have shape ``(plans,)`` unless said otherwise; all quantities are SI.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.metadata import entry_points
from typing import Protocol, runtime_checkable

import numpy as np

from costmodels.plans import BoolArray, FloatArray, IntArray, PlanTable
from costmodels.tiers import tier_of
from specs.errors import SpecError, nearest
from specs.problem import Problem

ENTRY_POINT_GROUP = "planner.cost_models"

RESOURCES: dict[str, str] = {
    "compute": "compute",
    "allreduce": "network",
    "reduce_scatter": "network",
    "all_gather": "network",
    "dispatch": "network",
    "combine": "network",
    "o_proj_exchange": "network",
    "engram_exchange": "network",
    "pipeline_send": "network",
    "pipeline_wait": "pipeline",
    "overhead": "overhead",
    "launch": "overhead",
    "vector": "overhead",
}
"""Resource that a component of a step waits for; every other component is read from a memory."""


@dataclass(frozen=True)
class StepEstimate:
    """Time of one pass, split into components that sum to the whole.

    ``components``: seconds by component; a component with no plan above 0 may be left out.
    ``follows``: seconds after which another such pass may follow; the whole pass without a
    pipeline, its slowest stage with one.
    ``work``: what one card does, the busiest of each pipeline stage, added over the stages:
    ``flops``, ``bytes_read``, ``bytes_sent`` and counts such as ``active_experts``.
    """

    components: Mapping[str, FloatArray]
    follows: FloatArray
    work: Mapping[str, FloatArray]

    @cached_property
    def seconds(self) -> FloatArray:
        """Seconds of the pass."""
        return np.sum(list(self.components.values()), axis=0)

    def bound_by(self, plans: PlanTable, row: int) -> str:
        """Name the resource that one plan waits for longest, a memory by its own name."""
        waits: dict[str, float] = {}
        for name, seconds in self.components.items():
            resource = RESOURCES.get(name) or tier_of(plans, row, name)
            waits[resource] = waits.get(resource, 0.0) + float(seconds[row])
        return max(waits, key=lambda resource: waits[resource])


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on the fullest card, split into components, beside what the card has.

    ``components`` and ``capacity`` belong to the memory that activations live in; ``others`` are
    the estimates of further memories that any of the plans uses, by their names.
    """

    components: Mapping[str, FloatArray]
    capacity: FloatArray
    others: Mapping[str, "MemoryEstimate"] = field(default_factory=dict)

    @cached_property
    def bytes(self) -> FloatArray:
        """Bytes needed on the fullest card."""
        return np.sum([np.zeros_like(self.capacity), *self.components.values()], axis=0)

    @cached_property
    def margin(self) -> FloatArray:
        """Bytes that are left in the fullest memory, or missing in the one that lacks most."""
        left = self.capacity - self.bytes
        for other in self.others.values():
            left = np.minimum(left, np.where(other.bytes > 0, other.margin, np.inf))
        return left

    def take(self, rows: IntArray) -> "MemoryEstimate":
        """Return the estimate of some plans."""
        components = {name: column[rows] for name, column in self.components.items()}
        others = {name: other.take(rows) for name, other in self.others.items()}
        return MemoryEstimate(components, self.capacity[rows], others)

    @property
    def fits(self) -> "np.typing.NDArray[np.bool_]":
        """Whether the need is within the capacity of every memory."""
        return self.margin >= 0


@dataclass(frozen=True)
class Basis:
    """What the estimate of each plan rests on, and how sure it is.

    ``sources``   what estimates rest on, as a user would cite it
    ``source``    position in ``sources`` of each plan
    ``inside``    whether a plan lies in the range that its source covers
    ``distance``  how far a plan is from the nearest datum of its source, in factors of e (the
                  largest log-ratio of any input); NaN where the source has no data
    ``noise``     standard error of the plan's seconds as a share of them, as far as it is its own:
                  plans whose difference it exceeds are ties
    ``notes``     what a reader must know of the sources, in sentences
    """

    sources: tuple[str, ...]
    source: IntArray
    inside: BoolArray
    distance: FloatArray
    noise: FloatArray
    notes: tuple[str, ...] = ()

    @classmethod
    def of_formula(cls, source: str, plans: int) -> "Basis":
        """Return the basis of a formula that covers every plan and knows no error."""
        return cls(
            (source,),
            np.zeros(plans, dtype=np.int64),
            np.full(plans, True),
            np.full(plans, np.nan),
            np.zeros(plans),
        )


class CostModel(Protocol):
    """Bytes and seconds of plans.

    A model must be monotone: more sessions, more context or more tokens never take less memory or
    less time. In ``decode``, seconds should be nearly piecewise linear in ``context``, which lets
    a whole session be summed from few evaluations (``costmodels.sessions.steps``).
    """

    name: str

    def memory(self, problem: Problem, plans: PlanTable, held: FloatArray) -> MemoryEstimate:
        """Bytes per card when the busiest attention rank holds ``held`` sessions.

        ``held`` has shape ``(plans, classes)``: sessions of each class, at their peak context.
        """
        ...

    def decode(
        self, problem: Problem, plans: PlanTable, batch: IntArray, context: FloatArray
    ) -> StepEstimate:
        """Time of one step of each of ``batch`` sessions of an instance.

        A step makes ``costmodels.drafts.tokens_per_step`` tokens a session: one, or more where
        drafted ones are verified. ``context``: tokens that a session already holds, on average
        over the batch.
        """
        ...

    def prefill(
        self,
        problem: Problem,
        plans: PlanTable,
        sequences: IntArray,
        tokens: FloatArray,
        prefix: FloatArray,
        remaining: FloatArray | None = None,
    ) -> StepEstimate:
        """Time of one pass that takes in ``tokens`` new tokens of each of ``sequences`` sessions.

        The sessions are dealt to the attention shards of one instance. ``prefix``: tokens that
        each session already holds. ``remaining``: tokens of the same prompt that later passes take
        in; none if not given.
        """
        ...

    def basis(
        self, problem: Problem, plans: PlanTable, batch: IntArray, context: FloatArray
    ) -> Basis:
        """What the time of a decode step at this batch and context rests on."""
        ...


@runtime_checkable
class Checked(Protocol):
    """A cost model that rests on data, which may not fit every problem."""

    def check(self, problem: Problem) -> None:
        """Raise ``SpecError`` if the data are wrong, or not of this problem."""
        ...


@runtime_checkable
class Carrying(Protocol):
    """A cost model that knows better than the assumptions what decode steps carry of prompts."""

    def carried(self, problem: Problem, plans: PlanTable) -> FloatArray:
        """Share of the time of prompts that stretches the steps of a steady load."""
        ...


def carried(model: CostModel, problem: Problem, plans: PlanTable) -> FloatArray:
    """Return that share: of the cost model if it has one, else as the problem assumes."""
    if isinstance(model, Carrying):
        return model.carried(problem, plans)
    return np.full(len(plans), problem.assumptions.carried)


def model_of(problem: Problem) -> CostModel:
    """Return the cost model that a problem names, once its data are checked against the problem."""
    model = cost_model(problem.cost_model)
    if isinstance(model, Checked):
        model.check(problem)
    return model


def installed_models() -> tuple[str, ...]:
    """Names of all registered cost models."""
    return tuple(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


@lru_cache(maxsize=16)
def cost_model(name: str) -> CostModel:
    """Return the cost model registered as ``name``; text after a colon goes to its constructor.

    Raises
    ------
    SpecError: no model of that name is installed, or the model refuses the options.
    """
    word, _, options = name.partition(":")
    build = model_type(word, name)
    try:
        return build(options) if options else build()
    except SpecError:
        raise
    except (TypeError, ValueError) as error:
        raise SpecError.single(
            "cost_model", name, f"cost model {word!r} refuses these options: {error}"
        ) from error


def model_type(word: str, written: str = "") -> Callable[..., CostModel]:
    """Return what builds the cost model registered as ``word``; ``written`` is shown in errors."""
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name == word:
            build: Callable[..., CostModel] = point.load()
            return build
    raise SpecError.single(
        "cost_model",
        written or word,
        "no such cost model is installed",
        nearest(word, installed_models()),
    )
