"""What a user may say of a model: its stack as groups of equal layers, and its number formats."""

from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from specs.base import Count, Name, Spec
from specs.units import TokensAtLeastOne

BITS = {"fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "fp4": 4, "int4": 4}
"""Bits of one number in each format."""

Dtype = Literal["fp32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"]


class PlainFormat(Spec):
    """How the numbers of a tensor without scales are stored."""

    dtype: Dtype = "bf16"
    """Format of the stored numbers."""

    @property
    def bytes_per_number(self) -> float:
        """Bytes of one stored number, without scales."""
        return BITS[self.dtype] / 8


class StoredFormat(PlainFormat):
    """How a matrix is stored, with the scales of a quantised one."""

    block: tuple[Count, Count] | None = None
    """Rows and columns that share one scale; a card must hold whole blocks."""
    group: Count | None = None
    """Numbers along the input dimension that share one scale; rounded up in each shard."""
    scale: Dtype = "fp32"
    """Format of the scales, where ``block`` or ``group`` is given."""

    @model_validator(mode="after")
    def _one_scaling(self) -> Self:
        if self.block and self.group:
            raise ValueError("give block or group, not both")
        return self

    @property
    def scale_bytes(self) -> float:
        """Bytes of one scale."""
        return BITS[self.scale] / 8


class Format(StoredFormat):
    """How a matrix is stored and multiplied."""

    compute: Dtype | None = None
    """Format that the matrix units multiply in; the stored one if not given."""


class KvFormat(PlainFormat):
    """How keys and values are kept and multiplied."""

    group: Count | None = None
    """Numbers of one head that share one scale."""
    scale: Dtype = "fp32"
    """Format of the scales, where ``group`` is given."""
    compute: Dtype | None = None
    """Format that attention multiplies in; that of the activations if not given."""

    def bytes_per_head(self, head_dim: int) -> float:
        """Bytes of one token's key, or value, in one head."""
        scales = -(-head_dim // self.group) * BITS[self.scale] / 8 if self.group else 0.0
        return head_dim * self.bytes_per_number + scales


class Formats(Spec):
    """The number format of each tensor class; BF16 where nothing is said."""

    attention: Format = Format()
    """Projections of queries, keys, values and output."""
    ffn: Format = Format()
    """Dense feed-forward matrices."""
    experts: Format = Format()
    """Routed experts."""
    router: Format = Format()
    """Routing matrices."""
    head: Format = Format()
    """Output projection to the vocabulary."""
    embedding: StoredFormat = StoredFormat()
    """Token embedding."""
    norms: PlainFormat = PlainFormat()
    """Normalisation weights and biases."""
    kv: KvFormat = KvFormat()
    """Keys and values of the context."""
    activations: PlainFormat = PlainFormat()
    """Hidden vectors between operators, and what collectives carry unless said otherwise."""

    def compute_dtype(self, tensor: str) -> Dtype:
        """Format in which the matrix units multiply ``tensor``, a field with ``compute``."""
        number_format: Format | KvFormat = getattr(self, tensor)
        if number_format.compute:
            return number_format.compute
        return self.activations.dtype if tensor == "kv" else number_format.dtype


class GqaAttention(Spec):
    """Grouped-query attention: ``q_heads`` queries share ``kv_heads`` keys and values."""

    kind: Literal["gqa"] = "gqa"
    """Grouped-query attention."""
    q_heads: Count
    """Query heads."""
    kv_heads: Count
    """Heads of keys and values; as many as query heads for plain multi-head attention."""
    head_dim: Count
    """Width of one head."""
    qk_norm: bool = False
    """Whether queries and keys are normalised per head (one vector of ``head_dim`` each)."""
    qkv_bias: bool = False
    """Whether the projections of queries, keys and values carry a bias."""

    @model_validator(mode="after")
    def _grouped(self) -> Self:
        if self.q_heads % self.kv_heads:
            raise ValueError(
                f"q_heads must be a multiple of kv_heads, got {self.q_heads} and {self.kv_heads}"
            )
        return self


class DenseFfn(Spec):
    """Gated feed-forward network: three matrices of ``hidden`` × ``intermediate``."""

    kind: Literal["dense"] = "dense"
    """A dense network."""
    intermediate: Count
    """Width between the projections."""


class MoeFfn(Spec):
    """Mixture of experts: each token runs ``top_k`` of ``experts`` gated networks."""

    kind: Literal["moe"] = "moe"
    """A mixture of experts."""
    experts: Count
    """Routed experts in a layer."""
    top_k: Count
    """Experts that each token runs."""
    intermediate: Count
    """Intermediate width of one expert."""

    @model_validator(mode="after")
    def _enough_experts(self) -> Self:
        if self.top_k > self.experts:
            raise ValueError(
                f"top_k must not exceed experts, got {self.top_k} of {self.experts} experts"
            )
        return self


Attention = GqaAttention
Ffn = Annotated[DenseFfn | MoeFfn, Field(discriminator="kind")]


class LayerGroup(Spec):
    """``count`` consecutive layers of one kind."""

    count: Count
    """Layers of this kind in a row."""
    attention: Attention
    """Their attention."""
    ffn: Ffn
    """Their feed-forward network."""


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
    layers: Annotated[tuple[LayerGroup, ...], Field(min_length=1)]
    """The stack from input to output."""
    formats: Formats = Formats()
    """Number formats by tensor class."""
    parameters: Annotated[int, Field(ge=1, le=10**15, strict=True)] | None = None
    """Published parameter count, for reading only: estimates count the shapes."""

    @cached_property
    def layer_count(self) -> int:
        """Number of layers of the whole stack."""
        return sum(group.count for group in self.layers)

    @cached_property
    def moe(self) -> tuple[MoeFfn, ...]:
        """The distinct mixture-of-experts networks of the stack; empty for a dense model."""
        found = {g.ffn: None for g in self.layers if isinstance(g.ffn, MoeFfn)}
        return tuple(found)

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return bool(self.moe)
