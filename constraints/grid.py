"""The plans that structural constraints allow, addressed by row number.

A grid holds the skeleton and the values of the axes that no rule couples, never their product, so
that any process can build any rows of a space of many millions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from costmodels.plans import IntArray

Columns = dict[str, IntArray]


@dataclass(frozen=True)
class Grid:
    """Rows of the skeleton, each crossed with all values of the free axes, the last one fastest.

    ``coupled``  a column of shape ``(skeleton,)`` for each axis that rules couple
    ``free``     the values of every other chosen axis
    """

    coupled: Mapping[str, IntArray]
    free: Mapping[str, IntArray]

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        skeleton = next(iter(self.coupled.values())).size if self.coupled else 1
        return skeleton, *(values.size for values in self.free.values())

    def equals(self, other: "Grid") -> bool:
        """Whether another grid has the same plans in the same order."""
        pairs = (self.coupled, other.coupled), (self.free, other.free)
        return all(
            list(mine) == list(theirs)
            and all(np.array_equal(column, theirs[axis]) for axis, column in mine.items())
            for mine, theirs in pairs
        )

    def __len__(self) -> int:
        return prod(self._sizes)

    def take(self, rows: IntArray) -> Columns:
        """Return the chosen axes of the plans with these row numbers, in their order."""
        skeleton, *free = np.unravel_index(rows, self._sizes)
        columns = {axis: column[skeleton] for axis, column in self.coupled.items()}
        for (axis, values), position in zip(self.free.items(), free, strict=True):
            columns[axis] = values[position]
        return columns
