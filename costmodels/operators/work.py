"""What an operator asks of one card, and the pass that it belongs to.

All arrays have shape ``(plans,)``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from costmodels import sharding
from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.problem import Problem
from specs.tensors import Matrix

Phase = Literal["decode", "prefill"]


@dataclass(frozen=True)
class Pass:
    """One forward pass of one micro-batch, as the busiest attention rank sees it.

    ``rank_sequences``      sequences on the busiest attention shard
    ``instance_sequences``  sequences in the whole instance, over its attention shards
    ``new_tokens``          tokens that each sequence feeds in (1 in decode)
    ``held_tokens``         tokens that each sequence already holds, on average
    ``remaining_tokens``    tokens of each prompt that later passes take in
    """

    phase: Phase
    rank_sequences: IntArray
    instance_sequences: IntArray
    new_tokens: FloatArray
    held_tokens: FloatArray
    remaining_tokens: FloatArray | float = 0.0

    def rank_tokens(self, cp: IntArray) -> FloatArray:
        """Rows that one card multiplies: prefill splits the sequence over CP, decode cannot."""
        tokens = self.rank_sequences * self.new_tokens
        return tokens / cp if self.phase == "prefill" else tokens

    def last_tokens(self, most: int) -> "Pass":
        """Return the pass of those new tokens that are among the last ``most`` of their prompt."""
        new = np.clip(most - self.remaining_tokens, 0.0, self.new_tokens)
        held = self.held_tokens + self.new_tokens - new
        return replace(self, new_tokens=new, held_tokens=held)

    @property
    def instance_tokens(self) -> FloatArray:
        """Tokens that the instance routes to experts."""
        return self.instance_sequences * self.new_tokens


@dataclass(frozen=True)
class Operator:
    """Work of one operator on one card.

    ``component``  name in the breakdown of the step when reading memory takes longest
    ``efficiency`` field of ``PhaseEfficiency`` that scales the compute peak
    ``tensor``     field of ``Formats`` whose format the matrix units multiply in
    """

    component: str
    efficiency: str
    tensor: str
    flops: FloatArray
    bytes: FloatArray


def between(matrices: Iterable[Matrix], plans: PlanTable) -> FloatArray:
    """Numbers that a rank keeps for a token between the first and the last of some matrices."""
    width: FloatArray = np.zeros(len(plans))
    for matrix in matrices:
        if not matrix.is_output:
            width = width + matrix.times * np.asarray(sharding.shard(matrix, plans)[1])
    return width


def dense(
    problem: Problem,
    matrices: Iterable[Matrix],
    plans: PlanTable,
    rows: FloatArray | IntArray,
    efficiency: str,
    component: str = "dense_weights",
) -> list[Operator]:
    """Products of ``rows`` tokens with some matrices, one operator a tensor class."""
    shares = sharding.matrix_shares(problem.model, matrices, plans, problem.assumptions)
    return [
        Operator(component, efficiency, tensor, 2.0 * rows * numbers, size)
        for tensor, (numbers, size) in shares.items()
    ]
