"""What a user may say of a model: its stack as groups of equal layers, and what goes with it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, model_validator

from specs.attention import Attention
from specs.base import Count, CountOrZero, Name, Spec
from specs.ffn import Ffn, MoeFfn
from specs.formats import Formats
from specs.tensors import Matrix, Over, Parts, Vectors
from specs.units import Bytes, TokensAtLeastOne

MOST_LAYERS = 10_000
"""Layers that a stack may have; each of them is dealt to a stage."""


class Engram(Spec):
    """Table of learned n-gram memories that a layer looks rows up in."""

    rows: Count
    """Rows of the table."""
    row_bytes: Bytes
    """Bytes of one row, scales included."""
    lookups: Count
    """Rows that each token looks up."""
    inputs: Count
    """Numbers of all rows looked up for one token, side by side."""
    outputs: Count
    """Width that they are projected to."""
    weights: CountOrZero = 0
    """Learned numbers that multiply hidden vectors and keys elementwise."""

    @property
    def table_bytes(self) -> float:
        """Bytes of the table."""
        return self.rows * self.row_bytes

    @property
    def matrix(self) -> Matrix:
        """Projection of the rows that a token looks up."""
        return Matrix("engram", self.inputs, self.outputs)

    @property
    def vectors(self) -> Vectors:
        """Elementwise numbers beside the projection."""
        return Vectors(self.weights)


class LayerGroup(Spec):
    """``count`` consecutive layers of one kind."""

    count: Count
    """Layers of this kind in a row."""
    attention: Attention
    """Their attention."""
    ffn: Ffn
    """Their feed-forward network."""
    engram: Engram | None = None
    """Table that each of these layers looks rows up in."""
    prefill_last: Count | None = None
    """Last tokens of a prompt that pass these layers in prefill, where what they keep of the others
    comes from an earlier layer; all if not given."""


class Pattern(Spec):
    """A row of layer groups that occurs ``repeat`` times."""

    repeat: Count
    """Times that the row occurs."""
    layers: Annotated[tuple[LayerGroup, ...], Field(min_length=1)]
    """The groups of the row, from input to output."""


def _shape(value: Any) -> str:
    """Tell a pattern from a layer group."""
    named = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return "pattern" if "repeat" in named else "group"


Layers = Annotated[
    tuple[
        Annotated[
            Annotated[LayerGroup, Tag("group")] | Annotated[Pattern, Tag("pattern")],
            Discriminator(_shape),
        ],
        ...,
    ],
    Field(min_length=1),
]


class Draft(Spec):
    """Module that drafts tokens for the model to verify (multi-token prediction)."""

    layers: Annotated[tuple[LayerGroup, ...], Field(min_length=1)]
    """Layers of the module."""
    projections: CountOrZero = 2
    """Matrices ``hidden`` × ``hidden`` that join the last hidden vector with the new token."""
    own_head: bool = False
    """Whether the module has an embedding and an output projection of its own."""
    markov_rank: CountOrZero = 0
    """Rank of a table of which token follows which, with a score of confidence; 0 for none."""

    def vectors(self, hidden: int) -> Vectors:
        """Three norms, or with a table two and the score, which sees its rank as well."""
        return Vectors(3 * hidden + self.markov_rank)


class Module(Spec):
    """A part beside the stack, such as a vision tower, that a decode step does not touch."""

    name: Name
    """Name of the part."""
    bytes: Bytes
    """Bytes of its weights."""
    parameters: Annotated[int, Field(ge=0, le=10**15, strict=True)] = 0
    """Numbers that it adds to the parameter count."""
    spread: bool = False
    """Whether TP deals it; else every rank of the first stage holds it whole."""


@dataclass(frozen=True)
class Layer:
    """One kind of layer that occurs in a stack."""

    attention: Attention
    ffn: Ffn
    engram: Engram | None = None
    prefill_last: int | None = None

    @classmethod
    def of(cls, group: LayerGroup) -> "Layer":
        """Return the kind of the layers of a group."""
        return cls(group.attention, group.ffn, group.engram, group.prefill_last)


class ModelSpec(Spec):
    """A model: its stack of layers, vocabulary, context limit and number formats."""

    name: Name
    """Name of the model."""
    title: str = ""
    """One line for people."""
    sources: tuple[str, ...] = ()
    """Where the figures come from."""
    hidden: Count
    """Width of the hidden vector."""
    vocab: Count
    """Entries of the vocabulary."""
    tied_embeddings: bool = False
    """Whether the output projection is the token embedding."""
    max_context: TokensAtLeastOne
    """Longest context that the model accepts, in tokens."""
    layers: Layers
    """The stack from input to output: groups of equal layers, or rows of groups that repeat."""
    hyper_connections: CountOrZero = 0
    """Residual streams that each half of a layer mixes (hyper-connections); 0 for one residual."""
    joined_streams: bool = True
    """Whether weights of their own join the residual streams after the last layer."""
    attention_residuals: bool = False
    """Whether each half of a layer weighs the outputs of earlier blocks by learned scores."""
    draft: Draft | None = None
    """Module that drafts tokens, where there is one."""
    modules: tuple[Module, ...] = ()
    """Parts beside the stack that take memory."""
    formats: Formats = Formats()
    """Number formats by tensor class."""
    parameters: Annotated[int, Field(ge=1, le=10**15, strict=True)] | None = None
    """Published parameter count, for reading only: estimates count the shapes."""

    @model_validator(mode="after")
    def _not_endless(self) -> Self:
        layers = 0
        for part in self.layers:
            row = part.layers if isinstance(part, Pattern) else (part,)
            times = part.repeat if isinstance(part, Pattern) else 1
            layers += times * sum(group.count for group in row)
        if layers > MOST_LAYERS:
            raise ValueError(f"layers must be at most {MOST_LAYERS} in all, got {layers}")
        return self

    @cached_property
    def groups(self) -> tuple[LayerGroup, ...]:
        """The stack as groups of equal layers, patterns written out."""
        found: list[LayerGroup] = []
        for part in self.layers:
            found.extend((part,) if isinstance(part, LayerGroup) else part.layers * part.repeat)
        return tuple(found)

    @cached_property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """The stack as (position in :attr:`kinds`, layers in a row)."""
        found: list[tuple[int, int]] = []
        for group in self.groups:
            kind = self.kinds.index(Layer.of(group))
            found.append((kind, group.count))
        return tuple(found)

    @cached_property
    def kinds(self) -> tuple[Layer, ...]:
        """The distinct kinds of layer, in the order in which they first occur."""
        return tuple(dict.fromkeys(Layer.of(g) for g in self.groups))

    @cached_property
    def kind_counts(self) -> tuple[int, ...]:
        """Layers of each of the :attr:`kinds` in the whole stack."""
        counts = [0] * len(self.kinds)
        for kind, count in self.runs:
            counts[kind] += count
        return tuple(counts)

    @cached_property
    def layer_count(self) -> int:
        """Number of layers of the whole stack."""
        return sum(group.count for group in self.groups)

    @cached_property
    def moe(self) -> tuple[MoeFfn, ...]:
        """The distinct mixture-of-experts networks of the stack; empty for a dense model."""
        return tuple(dict.fromkeys(k.ffn for k in self.kinds if isinstance(k.ffn, MoeFfn)))

    @cached_property
    def stepped(self) -> bool:
        """Whether any layer keeps or sees its context otherwise than token by token."""
        streams = [s for k in self.kinds for s in k.attention.parts(self.hidden, "decode").streams]
        return any(s.ratio > 1 or s.most_seen is not None for s in streams)

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        """The distinct matrices of all kinds of layer, drafting ones too, experts excepted."""
        drafting = self.draft.layers if self.draft else ()
        parts = [
            p
            for k in (*self.kinds, *map(Layer.of, drafting))
            for p in (k.attention.parts(self.hidden, "decode"), k.ffn.parts(self.hidden))
        ]
        return tuple(dict.fromkeys(matrix for part in parts for matrix in part.matrices))

    def units(self, over: Over) -> tuple[int, ...]:
        """Numbers of heads, KV heads or columns that are dealt to ranks, sorted."""
        cuts = (matrix.cut for matrix in self.matrices)
        return tuple(sorted({cut.units for cut in cuts if cut and cut.over == over}))

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return bool(self.moe)

    @property
    def residual_width(self) -> int:
        """Numbers of all residual streams of one token."""
        return self.hidden * max(self.hyper_connections, 1)

    @property
    def mixer(self) -> Parts:
        """What mixes the residual streams before one half of a layer; nothing without them."""
        streams = self.hyper_connections
        if not streams:
            return self._residuals
        outputs = streams * (streams + 2)
        matrix = Matrix("hyper", streams * self.hidden, outputs)
        return Parts(matrices=(matrix,), vectors=(Vectors(outputs + 3, "fp32"),))

    @property
    def last_mixer(self) -> Parts:
        """What joins the residual streams after the last layer; nothing without them."""
        streams = self.hyper_connections if self.joined_streams else 0
        if not streams:
            return self._residuals
        matrix = Matrix("hyper", streams * self.hidden, streams)
        return Parts(matrices=(matrix,), vectors=(Vectors(streams + 1, "fp32"),))

    @property
    def _residuals(self) -> Parts:
        """Norm and scores of attention residuals; nothing without them."""
        return Parts(vectors=(Vectors(2 * self.hidden),)) if self.attention_residuals else Parts()
