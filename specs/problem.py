"""The whole problem: model, hardware, workload, objective, limits, space and assumptions."""

from typing import Literal, Self

from pydantic import Field, model_validator

from specs.assumptions import Assumptions
from specs.base import Count, Spec
from specs.engine import Engine
from specs.ffn import MoeFfn
from specs.fleet import Fleet
from specs.fleet import check as check_fleet
from specs.formats import WIDER, Dtype
from specs.hardware import HardwareSpec
from specs.model import Layer, ModelSpec
from specs.precision import CHECKPOINT, KvPrecision, Precision, in_precision
from specs.routing import HistogramRouting
from specs.search import Search
from specs.space import Space
from specs.uncertainty import Spreads
from specs.units import (
    Fraction,
    FractionOrZero,
    MoneyPerHour,
    Watts,
)
from specs.workload import Workload

Currency = Literal["gpu_seconds", "money", "joules"]


class Objective(Spec):
    """What is minimised, and in which currency it is counted."""

    minimise: Literal["cost_per_on_time_session"] = "cost_per_on_time_session"
    """What is minimised."""
    currency: Currency = "gpu_seconds"
    """What a cost is counted in: card time, money or energy."""
    tie_within: FractionOrZero = 0.0
    """Plans that cost at most this share more than the best are shown as ties."""
    also: tuple[str, ...] = ()
    """Further figures to make small, for a Pareto front: ``tpot``, ``ttft``, ``cards``, or the path
    of a variable of the search."""

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        """Let a list stand for several objectives, the cost first."""
        if not isinstance(value, list | tuple) or not value:
            return value
        first, *others = value
        whole = first if isinstance(first, dict) else {"minimise": first}
        also = [o.get("minimise", o) if isinstance(o, dict) else o for o in others]
        return {**whole, "also": also}


class Limits(Spec):
    """What a deployment may take at most; everything in the machine where nothing is said."""

    cards: Count | None = None
    """Most cards."""
    servers: Count | None = None
    """Most servers that hold a card of the deployment."""
    power: Watts | None = None
    """Most power of those servers."""
    money_per_hour: MoneyPerHour | None = None
    """Most money per hour for the cards."""
    racks: Count | None = None
    """Most racks that hold those servers."""
    blast_radius: Fraction | None = None
    """Largest share of the sessions in flight that one failure may take down."""


class Problem(Spec):
    """A complete question: which plan serves this load on this machine at least cost?"""

    name: str = ""
    """Name of the study."""
    model: ModelSpec
    """The model to deploy."""
    hardware: HardwareSpec
    """The machine to deploy on."""
    engine: Engine | None = None
    """Serving engine that takes its part of the memory: its name, or ``name``, ``version`` and
    ``options``; none if not given."""
    workload: Workload
    """The load to serve."""
    objective: Objective = Objective()
    """What is minimised."""
    limits: Limits = Limits()
    """What a deployment may take."""
    space: Space = Space()
    """The values that each axis may take."""
    assumptions: Assumptions = Assumptions()
    """Idealisations of the estimate."""
    uncertainty: Spreads = Field(default_factory=dict)
    """How sure figures are, by their paths, e.g. ``{PATH: {kind: normal, deviation: 5 %}}``,
    ``{PATH: ± 20 %}`` or ``{PATH: [measurements]}``; ``VALUE ± 20 %`` in place of a value says the
    same."""
    cost_model: str = "roofline"
    """Registered cost model, with options after a colon; ``calibrated`` if none is named and the
    catalogue holds a calibration of the engine on the card."""
    search: Search = Search()
    """How the space is explored, and where."""
    fleet: Fleet | None = None
    """Pools of machines and demands on them, for ``planner fleet``; limits then hold for all of it
    together."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.fleet is not None:
            check_fleet(self)
        self._check_contexts()
        self._check_limits()
        self._check_routing()
        self._check_figures()
        self._check_engine()
        return self

    def _check_contexts(self) -> None:
        for c in self.workload.classes:
            if c.peak_context > self.model.max_context:
                raise ValueError(
                    f"workload.classes.{c.name}: context + prompt + generate must not exceed the "
                    f"{self.model.max_context} tokens that {self.model.name} accepts, got "
                    f"{c.peak_context}"
                )

    def _check_limits(self) -> None:
        wanted = self.limits.cards or 0
        if self.fleet is None and wanted > self.hardware.cards:
            raise ValueError(
                f"limits.cards must not exceed the {self.hardware.cards} cards of "
                f"{self.hardware.name}, got {wanted}"
            )
        known = [domain.name for domain in self.hardware.failures]
        for failure in self.workload.failures:
            if failure.domain not in known:
                raise ValueError(
                    f"workload.failures: domain must be one of {', '.join(known)}, "
                    f"got {failure.domain!r}"
                )
            if failure.card >= self.hardware.cards:
                raise ValueError(
                    f"workload.failures: card must be one of 0 to {self.hardware.cards - 1}, "
                    f"got {failure.card}"
                )

    def _check_routing(self) -> None:
        routing = self.assumptions.routing
        if isinstance(routing, HistogramRouting):
            drafting = map(Layer.of, self.model.draft.layers if self.model.draft else ())
            for ffn in {kind.ffn: None for kind in (*self.model.kinds, *drafting)}:
                if isinstance(ffn, MoeFfn):
                    routing.check(ffn, self.model.name)

    @property
    def longest(self) -> int:
        """Tokens of the longest session that a deployment must hold."""
        engine = self.engine.memory.max_model_len if self.engine else None
        return engine or max(c.peak_context for c in self.workload.classes)

    def _check_engine(self) -> None:
        """Refuse what contradicts the engine: it accounts for the memory itself."""
        if self.engine is None:
            return
        for c in self.workload.classes:
            if c.peak_context > self.longest:
                raise ValueError(
                    f"workload.classes.{c.name}: context + prompt + generate must not exceed the "
                    f"engine's max_model_len of {self.longest} tokens, got {c.peak_context}"
                )
        for name in ("capacity", "activations", "workspace"):
            given = getattr(self.assumptions, name)
            if given != Assumptions.model_fields[name].default:
                raise ValueError(
                    f"assumptions.{name}: must be left out with an engine, which states what it "
                    f"takes under engine.memory, got {given}"
                )

    def _check_figures(self) -> None:
        """Refuse what needs a figure that the machine does not state."""
        money = self.objective.currency == "money" or self.limits.money_per_hour is not None
        if money and self.hardware.card.price is None:
            raise ValueError(
                f"hardware.card.price: needed to count money, and {self.hardware.name} has none; "
                f"set it, e.g. 2.5 USD/h"
            )
        rack = self.hardware.facility.rack
        if self.limits.racks is not None and rack.servers is None and rack.power is None:
            raise ValueError(
                f"hardware.facility.rack: needed to count racks, and {self.hardware.name} states "
                f"neither servers nor power of one; set it, e.g. {{power: 40 kW}}"
            )
        energy = self.objective.currency == "joules" or self.limits.power is not None
        if energy and self.hardware.server.power is None:
            raise ValueError(
                f"hardware.server.power: needed to count energy, and {self.hardware.name} has "
                f"none; set it, e.g. 10.2 kW"
            )
        self._check_levels()
        self._check_rates()

    @property
    def widest(self) -> int:
        """Cards that may exchange with each other, as far as the spec narrows them down."""
        found = 1
        for axis in ("tp", "pp", "cp", "attention_dp", "attention_replicas"):
            given = getattr(self.space, axis)
            if isinstance(given, tuple):
                found *= max(given)
            elif (
                given == "open"
                or axis in ("tp", "pp")
                or (axis == "attention_dp" and self.model.is_moe)
            ):
                return self.card_limit
        handed_over = self.space.prefill_replicas not in (None, (0,))
        return self.card_limit if handed_over else min(found, self.card_limit)

    def _check_levels(self) -> None:
        """Refuse a machine that does not state how the cards that may work together are joined."""
        within = 1
        for level in self.hardware.levels:
            for figure in ("bandwidth", "latency"):
                if within < self.widest and getattr(level, figure) is None:
                    raise ValueError(
                        f"hardware.levels.{level.name}.{figure}: needed where more cards than "
                        f"{within} may work together, and {self.hardware.name} has none; set it, "
                        f"or limits.cards, or space.tp and the like"
                    )
            within = level.size

    def _check_rates(self) -> None:
        """Refuse formats that the card cannot multiply, those of stated recipes among them."""
        recipes: dict[Precision, None] = {CHECKPOINT: None}
        if isinstance(self.space.precision, tuple):
            recipes |= dict.fromkeys(self.space.precision)
        for precision in recipes:
            here = self.in_precision(precision)
            for tensor in here.multiplied:
                here.compute_peak(tensor)

    def in_precision(self, precision: Precision, kv_dtype: KvPrecision = CHECKPOINT) -> "Problem":
        """Return the problem with the formats of a recipe."""
        model = in_precision(self.model, precision, kv_dtype)
        return self if model is self.model else self.model_copy(update={"model": model})

    def can_multiply(self, precision: Precision) -> bool:
        """Whether the card states a rate for all formats of a recipe, or for wider ones."""
        here = self.in_precision(precision)
        return all(here.rate_format(here.wanted_format(tensor)) for tensor in here.multiplied)

    @property
    def multiplied(self) -> tuple[str, ...]:
        """Tensor classes that the matrix units multiply in this model, sorted."""
        model = self.model
        found = {"head", *(matrix.tensor for matrix in model.matrices)}
        found |= {matrix.tensor for matrix in model.mixer.matrices}
        drafting = map(Layer.of, model.draft.layers if model.draft else ())
        for kind in (*model.kinds, *drafting):
            found |= {"experts"} if isinstance(kind.ffn, MoeFfn) else set()
            attention = kind.attention.parts(model.hidden, "decode")
            found |= {stream.tensor for stream in attention.streams}
            found |= {"state"} if attention.states else set()
            found |= {"engram"} if kind.engram else set()
        return tuple(sorted(found))

    @property
    def card_limit(self) -> int:
        """Cards of the machine that the deployment may take."""
        return min(self.limits.cards or self.hardware.cards, self.hardware.cards)

    def wanted_format(self, tensor: str) -> Dtype:
        """Format to multiply ``tensor`` in, a field of ``Formats``, whatever the card can."""
        own = self.model.formats.compute_dtype(tensor)
        return "bf16" if self.assumptions.matmul_dtype == "bf16" else own

    def rate_format(self, wanted: Dtype) -> Dtype | None:
        """Format that the card multiplies in place of ``wanted``: itself, or the nearest wider."""
        formats: tuple[Dtype, ...] = (wanted, *WIDER[wanted])
        return next((dtype for dtype in formats if dtype in self.hardware.card.peak), None)

    def multiplied_in(self, tensor: str) -> Dtype:
        """Format that the card multiplies ``tensor`` in: its own, or the nearest wider one.

        ``tensor`` is a field of ``Formats``. Raises ``ValueError`` naming the figure if the card
        states no rate for that format nor for a wider one.
        """
        wanted = self.wanted_format(tensor)
        found = self.rate_format(wanted)
        if found is None:
            raise ValueError(
                f"hardware.card.peak.{wanted}: needed for the {tensor} of {self.model.name}, and "
                f"{self.hardware.name} has none; known: {', '.join(self.hardware.card.peak)}"
            )
        return found

    def compute_peak(self, tensor: str) -> float:
        """Matrix rate in FLOP/s for ``tensor``; see :meth:`multiplied_in`."""
        return self.hardware.card.peak[self.multiplied_in(tensor)]
