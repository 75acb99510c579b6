"""The plan table: one column per axis, one row per plan.

All columns are integer arrays of shape ``(plans,)``; axes of words hold the position of the word
in :data:`WORDS`. Nothing above this module loops over plans: it works on columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from specs.memory import TIERS
from specs.precision import KV_RECIPES, RECIPES
from specs.space import AXES

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

TIER_AXES = ("weights_tier", "experts_tier", "engram_tier", "kv_tier")
"""Axes that place a class of data in a memory."""

WORDS: dict[str, tuple[str, ...]] = {
    "shared_experts": ("dealt", "copied"),
    "precision": tuple(RECIPES),
    "kv_dtype": tuple(KV_RECIPES),
    **dict.fromkeys(TIER_AXES, TIERS),
    "overlap": ("none", "two_batch"),
    "allreduce": ("auto", "ring", "tree", "hierarchical", "in_network", "recursive", "swing"),
    "alltoall": ("auto", "direct", "pairwise"),
}
"""Axes whose values are words; a column holds positions in these tuples."""

COUNTS = ("redundant_experts", "prefill_replicas", "prefill_chunk", "mtp")
"""Axes that count something there may be none of."""

NEUTRAL: dict[str, int] = {
    name: 0 if name in {"sp", *COUNTS, "batch", "domain", *WORDS} else 1 for name in AXES
}
"""The value of each axis at which it does nothing. ``batch`` 0 means: not fixed by the plan;
``domain`` 0: the largest that the machine may be built with."""


def encode(axis: str, value: int | str | bool) -> int:
    """Return the number that stands for ``value`` in the column of ``axis``."""
    return WORDS[axis].index(str(value)) if axis in WORDS else int(value)


def decode(axis: str, number: int) -> int | str | bool | None:
    """Return the value that ``number`` stands for in the column of ``axis``."""
    if axis in WORDS:
        return WORDS[axis][number]
    if axis == "sp":
        return bool(number)
    if axis in {"batch", "domain"} and number == 0:
        return None
    return int(number)


@dataclass(frozen=True)
class PlanTable:
    """Plans as columns; every column has shape ``(plans,)``. See ``specs.space.Space``."""

    tp: IntArray
    kv_split: IntArray
    pp: IntArray
    cp: IntArray
    sp: IntArray
    attention_dp: IntArray
    attention_replicas: IntArray
    ep: IntArray
    expert_tp: IntArray
    redundant_experts: IntArray
    shared_experts: IntArray
    o_proj_tp: IntArray
    head_tp: IntArray
    replicas: IntArray
    prefill_replicas: IntArray
    domain: IntArray
    precision: IntArray
    kv_dtype: IntArray
    weights_tier: IntArray
    experts_tier: IntArray
    engram_tier: IntArray
    kv_tier: IntArray
    batch: IntArray
    microbatches: IntArray
    overlap: IntArray
    prefill_chunk: IntArray
    mtp: IntArray
    allreduce: IntArray
    alltoall: IntArray

    @classmethod
    def from_columns(
        cls, columns: Mapping[str, NDArray[np.integer] | Sequence[int] | int]
    ) -> "PlanTable":
        """Build a table; axes that are not given are neutral, single numbers are repeated."""
        given = {name: np.atleast_1d(np.asarray(c, dtype=np.int64)) for name, c in columns.items()}
        length = max((c.size for c in given.values()), default=0)
        return cls(
            **{
                name: np.ascontiguousarray(
                    np.broadcast_to(given.get(name, np.int64(NEUTRAL[name])), (length,))
                )
                for name in AXES
            }
        )

    @classmethod
    def concatenate(cls, tables: Sequence["PlanTable"]) -> "PlanTable":
        """Stack tables below each other."""
        return cls(**{n: np.concatenate([t.column(n) for t in tables]) for n in AXES})

    def column(self, axis: str) -> IntArray:
        """Return the column of ``axis``."""
        column: IntArray = getattr(self, axis)
        return column

    def has(self, axis: str, word: str) -> BoolArray:
        """Whether each plan has ``word`` on an axis of words."""
        chosen: BoolArray = self.column(axis) == WORDS[axis].index(word)
        return chosen

    def take(self, rows: NDArray[np.integer] | BoolArray | slice) -> "PlanTable":
        """Return the table of the chosen rows, in their order."""
        return PlanTable(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def with_columns(self, **columns: IntArray) -> "PlanTable":
        """Return a copy in which the given columns are replaced."""
        return PlanTable(**({f.name: getattr(self, f.name) for f in fields(self)} | columns))

    def row(self, index: int) -> dict[str, int | str | bool | None]:
        """Return one plan as a mapping from axis to value."""
        return {name: decode(name, int(self.column(name)[index])) for name in AXES}

    def __len__(self) -> int:
        return int(self.tp.size)

    @cached_property
    def lanes(self) -> IntArray:
        """Cards that hold the same tokens of one batch shard: TP × CP."""
        return self.tp * self.cp

    @cached_property
    def stage_cards(self) -> IntArray:
        """Cards of one pipeline stage of an instance."""
        return self.lanes * self.attention_dp * self.attention_replicas

    @cached_property
    def cards(self) -> IntArray:
        """Cards of one instance."""
        return self.stage_cards * self.pp

    @cached_property
    def instances(self) -> IntArray:
        """Instances of the deployment, those that only take in prompts included."""
        return self.replicas + self.prefill_replicas

    @cached_property
    def total_cards(self) -> IntArray:
        """Cards of the whole deployment."""
        return self.cards * self.instances


ONE_CARD = PlanTable.from_columns({"tp": [1]})
"""The plan of a whole model on one card."""
