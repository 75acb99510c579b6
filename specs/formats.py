"""Number formats: how each class of tensor is stored and multiplied."""

from typing import Literal, Self

from pydantic import model_validator

from specs.base import Count, CountOrZero, Spec

BITS = {
    "fp32": 32,
    "bf16": 16,
    "fp16": 16,
    "fp8": 8,
    "int8": 8,
    "e8m0": 8,
    "fp4": 4,
    "int4": 4,
}
"""Bits of one number in each format; ``e8m0`` is a power of two, for scales only."""

Dtype = Literal["fp32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"]
ScaleDtype = Literal["fp32", "bf16", "fp16", "fp8", "e8m0"]

WIDER: dict[Dtype, tuple[Dtype, ...]] = {
    "fp4": ("fp8", "bf16", "fp16"),
    "fp8": ("bf16", "fp16"),
    "int4": ("int8", "bf16", "fp16"),
    "int8": ("bf16", "fp16"),
    "bf16": ("fp16", "fp32"),
    "fp16": ("bf16", "fp32"),
    "fp32": (),
}
"""Formats that numbers are widened to, nearest first, where a card cannot multiply their own."""


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
    scale: ScaleDtype = "fp32"
    """Format of the scales, where ``block`` or ``group`` is given."""
    zero: Dtype | None = None
    """Format of the zero points that lie beside the scales, as AWQ has them."""

    @model_validator(mode="after")
    def _one_scaling(self) -> Self:
        if self.block and self.group:
            raise ValueError("give block or group, not both")
        if self.zero and not (self.block or self.group):
            raise ValueError("zero points lie beside scales: give block or group")
        return self

    @property
    def scale_bytes(self) -> float:
        """Bytes of one scale, and of its zero point."""
        return (BITS[self.scale] + (BITS[self.zero] if self.zero else 0)) / 8


class Format(StoredFormat):
    """How a matrix is stored and multiplied."""

    compute: Dtype | None = None
    """Format that the matrix units multiply in; the stored one if not given."""


class KvFormat(PlainFormat):
    """How what is kept of the context is stored and multiplied."""

    rope: Dtype | None = None
    """Format of the part that carries the position, where it is kept apart."""
    group: Count | None = None
    """Numbers of one vector that share one scale; the positional part has none if kept apart."""
    scale: ScaleDtype = "fp32"
    """Format of the scales, where ``group`` is given."""
    padding: CountOrZero = 0
    """Bytes added to each vector to align it."""
    compute: Dtype | None = None
    """Format that attention multiplies in; that of the activations if not given."""

    def vector_bytes(self, width: int, rope: int = 0) -> float:
        """Bytes of one kept vector of ``width`` numbers, ``rope`` of them positional."""
        apart = rope if self.rope else 0
        scaled = width - apart
        size = scaled * self.bytes_per_number + self.padding
        if self.rope:
            size += apart * BITS[self.rope] / 8
        if self.group:
            size += -(-scaled // self.group) * BITS[self.scale] / 8
        return size


class Formats(Spec):
    """The number format of each tensor class; BF16 where nothing is said."""

    attention: Format = Format()
    """Projections of queries, keys, values and output."""
    compressor: Format = Format()
    """Matrices that compress the context of sparse attention, and those of its indexer that do
    not start from the low-rank query."""
    ffn: Format = Format()
    """Dense feed-forward matrices, and those around experts in a latent space."""
    experts: Format = Format()
    """Routed experts."""
    shared_experts: Format = Format()
    """Experts that every token runs."""
    router: Format = Format()
    """Routing matrices."""
    head: Format = Format()
    """Output projection to the vocabulary."""
    embedding: StoredFormat = StoredFormat()
    """Token embedding."""
    hyper: Format = Format(dtype="fp32", compute="bf16")
    """Matrices that mix several residual streams (hyper-connections)."""
    engram: Format = Format()
    """Matrices that turn rows of Engram tables into keys and values."""
    norms: PlainFormat = PlainFormat()
    """Normalisation weights and biases."""
    kv: KvFormat = KvFormat()
    """Keys and values of the context, compressed entries and latents included."""
    window: KvFormat | None = None
    """Keys and values inside a sliding window; as ``kv`` if not given."""
    index: KvFormat = KvFormat()
    """Keys of the indexer that chooses what sparse attention reads."""
    state: PlainFormat = PlainFormat(dtype="fp32")
    """Recurrent states, and what a compressor gathers until an entry is complete."""
    convolution: PlainFormat = PlainFormat()
    """Last inputs of the short convolutions before a recurrent state."""
    activations: PlainFormat = PlainFormat()
    """Hidden vectors between operators, and what collectives carry unless said otherwise."""

    def kept(self, tensor: str) -> KvFormat:
        """Format of what is kept of the context as ``tensor``: kv, window or index."""
        found: KvFormat | None = getattr(self, tensor)
        return self.kv if found is None else found

    def compute_dtype(self, tensor: str) -> Dtype:
        """Format in which the matrix units multiply ``tensor``, a field with ``compute``."""
        if tensor == "state":
            return self.activations.dtype
        number_format = self.kept(tensor) if tensor == "window" else getattr(self, tensor)
        if number_format.compute:
            dtype: Dtype = number_format.compute
            return dtype
        if isinstance(number_format, KvFormat):
            return self.activations.dtype
        stored: Dtype = number_format.dtype
        return stored
