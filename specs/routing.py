"""How tokens choose experts: a word, a stated skew, or what was observed.

An observation counts, layer by layer, how often each expert was chosen. Entries of the catalogue
stand in ``specs/catalog/routing/``.
"""

from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from specs import catalog
from specs.base import CountOrZero, Spec
from specs.errors import SpecError
from specs.ffn import MoeFfn

RoutingWord = Literal[
    "uniform_without_replacement",
    "uniform_with_replacement",
    "balanced",
    "concentrated",
    "concentrated_spread",
]


class SkewRouting(Spec):
    """The busiest group of experts works a stated multiple of the mean."""

    kind: Literal["skew"] = "skew"
    """A stated skew."""
    factor: Annotated[float, Field(ge=1, le=10**6)]
    """Computations of the busiest group over the mean of all groups."""

    @property
    def summary(self) -> str:
        """The assumption in a few words."""
        return f"skew: the busiest group does {self.factor:g} times the mean"


class HistogramRouting(Spec):
    """How often each expert was chosen, as counted in some layers of a running model."""

    kind: Literal["histogram"] = "histogram"
    """Counts of an observation."""
    name: str = ""
    """Name of the observation; that of a catalogue entry where ``counts`` is left out."""
    title: str = ""
    """One line for people."""
    sources: tuple[str, ...] = ()
    """Where the counts come from."""
    counts: Annotated[
        tuple[Annotated[tuple[CountOrZero, ...], Field(min_length=1, max_length=4096)], ...],
        Field(min_length=1, max_length=128),
    ]
    """For each observed layer, how many tokens chose each expert."""
    placement: Literal["contiguous", "balanced"] = "contiguous"
    """Whether expert groups hold experts in their order, or such that the busiest is lightest."""

    @model_validator(mode="before")
    @classmethod
    def _from_catalogue(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or "counts" in raw or not isinstance(raw.get("name"), str):
            return raw
        try:
            return {**catalog.entry("routing", raw["name"]), **raw}
        except SpecError as error:
            # The path of the fault is that of the routing, which pydantic adds.
            raise ValueError(*(str(replace(fault, path="")) for fault in error.faults)) from None

    @model_validator(mode="after")
    def _rectangular(self) -> Self:
        for position, layer in enumerate(self.counts):
            if len(layer) != self.experts:
                raise ValueError(
                    f"all layers must count the same experts, got {self.experts} in layer 0 and "
                    f"{len(layer)} in layer {position}"
                )
            if not any(layer):
                raise ValueError(f"layer {position} of counts must hold a choice, and all are 0")
        return self

    @property
    def experts(self) -> int:
        """Experts that an observed layer has."""
        return len(self.counts[0])

    @property
    def summary(self) -> str:
        """The assumption in a few words."""
        what = f"histogram {self.name}".strip()
        size = f"{len(self.counts)} layers of {self.experts} experts"
        return f"{what}: {size}, {self.placement} placement"

    def check(self, ffn: MoeFfn, model: str) -> None:
        """Refuse counts that tokens of ``model`` cannot have made in a layer of ``ffn``.

        Raises ``ValueError``: the number of experts differs, or one of them was chosen more than
        once a token, where the tokens of a layer are its choices over ``top_k``.
        """
        where = "assumptions.routing.counts"
        if self.experts != ffn.experts:
            raise ValueError(
                f"{where}: must count each of the {ffn.experts} experts of {model}, got "
                f"{self.experts} a layer"
            )
        for position, layer in enumerate(self.counts):
            if max(layer) * ffn.top_k > sum(layer):
                raise ValueError(
                    f"{where}: a token of {model} chooses {ffn.top_k} different experts, so none "
                    f"can have more than 1/{ffn.top_k} of the {sum(layer)} choices of layer "
                    f"{position}, got {max(layer)}"
                )


_Described = Annotated[SkewRouting | HistogramRouting, Field(discriminator="kind")]

Routing = Annotated[
    Annotated[RoutingWord, Tag("word")] | Annotated[_Described, Tag("described")],
    Discriminator(lambda raw: "described" if isinstance(raw, dict | Spec) else "word"),
]
"""How tokens choose experts."""
