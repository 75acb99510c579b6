"""Linear attention: a recurrent state in place of a context."""

from typing import Literal, Self

from pydantic import model_validator

from specs.attention.parts import Phase, output_matrix
from specs.base import Count, CountOrZero, Spec
from specs.tensors import Cut, Matrix, Parts, State, Vectors


class LinearAttention(Spec):
    """Linear attention with a recurrent state: gated DeltaNet, KDA, Mamba-2 and their kin.

    Every value head keeps a state of ``k_dim`` × ``v_dim`` numbers in place of a context.
    """

    kind: Literal["linear"] = "linear"
    """A recurrent state."""
    k_heads: Count
    """Heads of queries and keys (groups of B and C in Mamba-2)."""
    v_heads: Count
    """Heads of values, each with a state."""
    k_dim: Count
    """Width of a key (size of the state in Mamba-2)."""
    v_dim: Count
    """Width of a value."""
    convolution: CountOrZero = 0
    """Tokens that the short convolution of queries, keys and values spans; 0 for none."""
    convolution_bias: bool = False
    """Whether the convolution carries a bias."""
    update: Literal["additive", "delta"] = "delta"
    """Whether a token only adds to the state, or first takes out what its key finds there."""
    gate_rank: CountOrZero = 0
    """Width of a low-rank output gate; 0 for one projected directly."""
    decay_rank: CountOrZero = 0
    """Width of a low-rank projection of one decay per key number; 0 for one decay a head."""
    scalars: CountOrZero = 2
    """Projections to one number a head (decay, step size)."""
    head_vectors: CountOrZero = 2
    """Learned numbers of every head (decay, bias, skip)."""
    wide_norm: bool = False
    """Whether the output norm spans all heads; else one vector of ``v_dim``."""
    fp32_vectors: Literal["none", "heads", "all"] = "heads"
    """Which learned vectors are stored in FP32: none, those of heads, or convolution and output
    norm as well; the others are stored as norms are."""

    @model_validator(mode="after")
    def _grouped(self) -> Self:
        if self.v_heads % self.k_heads:
            raise ValueError(
                f"v_heads must be a multiple of k_heads, got {self.v_heads} and {self.k_heads}"
            )
        return self

    def parts(self, hidden: int, phase: Phase) -> Parts:
        """Projections, convolution and state."""
        keys, values = self.k_heads * self.k_dim, self.v_heads * self.v_dim
        by_head = Cut("columns", "heads", self.v_heads)
        matrices = [
            Matrix("attention", hidden, keys, Cut("columns", "own_heads", self.k_heads), times=2),
            Matrix("attention", hidden, values, by_head),
        ]
        matrices += self._low_rank(hidden, self.gate_rank, values, by_head)
        if self.decay_rank:
            decays = self.v_heads * self.k_dim
            matrices += self._low_rank(hidden, self.decay_rank, decays, by_head)
        if self.scalars:
            matrices.append(Matrix("attention", hidden, self.v_heads, by_head, times=self.scalars))
        matrices.append(output_matrix(values, hidden, self.v_heads))
        norm = values if self.wide_norm else self.v_dim
        taps = (self.convolution + self.convolution_bias) * (2 * keys + values)
        # Decay is elementwise; read and addition are two operations for each number of the state.
        passes = 3 if self.update == "delta" else 2
        cells = self.k_dim * self.v_dim
        learned = self.v_heads * (self.head_vectors + (self.k_dim if self.decay_rank else 0))
        states = [State("state", cells, self.v_heads, flops=2 * passes * cells)]
        if self.convolution:
            inputs = [(self.k_heads, 2 * self.k_dim), (self.v_heads, self.v_dim)]
            states += [
                State("convolution", self.convolution * n, h, flops=2 * self.convolution * n)
                for h, n in inputs
            ]
        return Parts(
            matrices=tuple(matrices),
            vectors=(
                Vectors(norm + taps, "fp32" if self.fp32_vectors == "all" else "norms"),
                Vectors(learned, "norms" if self.fp32_vectors == "none" else "fp32"),
            ),
            states=tuple(states),
            heads=self.v_heads,
            attended_width=values,
        )

    @staticmethod
    def _low_rank(hidden: int, rank: int, columns: int, cut: Cut) -> list[Matrix]:
        if not rank:
            return [Matrix("attention", hidden, columns, cut)]
        return [Matrix("attention", hidden, rank), Matrix("attention", rank, columns, cut)]
