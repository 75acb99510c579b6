"""Kinds of feed-forward network: the fields that a user states, and the tensors they imply.

A new kind is one class here with a ``kind`` of its own and a ``parts`` method; add it to
:data:`Ffn`. Routed experts are described by :class:`MoeFfn` itself, as they are dealt and read
unlike any other matrix.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from specs.base import Count, CountOrZero, Spec
from specs.tensors import Cut, Matrix, Over, Parts, Vectors


def _network(tensor: str, over: Over, hidden: int, width: int, gated: bool) -> tuple[Matrix, ...]:
    """Matrices of a network, with its up and gate projections beside each other."""
    return (
        Matrix(tensor, hidden, width, Cut("columns", over, width), times=1 + gated),
        Matrix(tensor, width, hidden, Cut("rows", over, width)),
    )


class NoFfn(Spec):
    """A layer without a feed-forward network, only attention."""

    kind: Literal["none"] = "none"
    """No feed-forward network."""

    def parts(self, hidden: int) -> Parts:
        """Tensors of the layer: none."""
        return Parts()


class DenseFfn(Spec):
    """Feed-forward network of matrices ``hidden`` × ``intermediate``."""

    kind: Literal["dense"] = "dense"
    """A dense network."""
    intermediate: Count
    """Width between the projections."""
    gated: bool = True
    """Whether a third matrix gates the middle (SwiGLU and its kin)."""
    bias: bool = False
    """Whether the projections carry a bias."""

    def parts(self, hidden: int) -> Parts:
        """Matrices of the network."""
        biases = (1 + self.gated) * self.intermediate + hidden if self.bias else 0
        network = _network("ffn", "width", hidden, self.intermediate, self.gated)
        return Parts(matrices=network, vectors=(Vectors(biases),) if biases else ())


class MoeFfn(Spec):
    """Mixture of experts: each token runs ``top_k`` of ``experts`` networks."""

    kind: Literal["moe"] = "moe"
    """A mixture of experts."""
    experts: Count
    """Routed experts in a layer."""
    top_k: Count
    """Experts that each token runs."""
    intermediate: Count
    """Intermediate width of one expert."""
    gated: bool = True
    """Whether a third matrix gates the middle of each expert."""
    bias: bool = False
    """Whether the projections of each expert, and the router, carry a bias."""
    latent: Count | None = None
    """Width that hidden vectors are projected to before they are sent to experts."""
    latent_norm: bool = False
    """Whether what comes back from latent experts is normalised."""
    shared_intermediate: CountOrZero = 0
    """Width of the experts that every token runs, all together; 0 for none."""
    shared_gate: bool = False
    """Whether the output of the shared experts is gated by a projection to one number."""
    correction: bool = False
    """Whether the router adds a learned FP32 correction to its scores."""
    image_correction: bool = False
    """Whether tokens of images have a correction of their own."""
    hash_tokens: CountOrZero = 0
    """Entries of a table that chooses the experts by the token alone; 0 for a learned router."""

    @model_validator(mode="after")
    def _enough_experts(self) -> Self:
        if self.top_k > self.experts:
            raise ValueError(
                f"top_k must not exceed experts, got {self.top_k} of {self.experts} experts"
            )
        return self

    def width(self, hidden: int) -> int:
        """Width of the vectors that experts take and give back."""
        return self.latent or hidden

    def expert(self, hidden: int) -> tuple[Matrix, ...]:
        """Matrices of one routed expert."""
        width = self.width(hidden)
        return _network("experts", "expert_width", width, self.intermediate, self.gated)

    def expert_vectors(self, hidden: int) -> int:
        """Biases of one routed expert."""
        if not self.bias:
            return 0
        return (1 + self.gated) * self.intermediate + self.width(hidden)

    def parts(self, hidden: int) -> Parts:
        """Router, shared experts, and projections around latent experts; not the experts."""
        matrices = [Matrix("router", hidden, self.experts)]
        vectors = []
        if self.latent:
            matrices.append(Matrix("ffn", hidden, self.latent))
            matrices.append(Matrix("ffn", self.latent, hidden))
        if self.latent and self.latent_norm:
            vectors.append(Vectors(self.latent))
        if self.shared_intermediate:
            shared = self.shared_intermediate
            matrices += _network("shared_experts", "shared_width", hidden, shared, self.gated)
            if self.shared_gate:
                matrices.append(Matrix("router", hidden, 1))
        if self.bias:
            vectors.append(Vectors(self.experts))
        if self.correction:
            vectors.append(Vectors(self.experts, "fp32"))
        if self.image_correction:
            vectors.append(Vectors(self.experts, "fp32", read=False))
        if self.hash_tokens:
            vectors.append(Vectors(self.hash_tokens * self.top_k, "int64", read=False))
        return Parts(matrices=tuple(matrices), vectors=tuple(vectors))


Ffn = Annotated[DenseFfn | MoeFfn | NoFfn, Field(discriminator="kind")]
