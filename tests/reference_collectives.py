"""Plans, and their collectives over nested domains once more, one group at a time (6.4.2, 6.7.4).

Part of the reference that ``tests.reference`` describes. It knows levels behind one switch chip.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from specs.assumptions import PhaseEfficiency
from specs.fabric import Switch
from specs.problem import Problem


@dataclass(frozen=True)
class Plan:
    tp: int
    kv_split: int
    pp: int
    cp: int
    attention_dp: int
    attention_replicas: int
    ep: int
    expert_tp: int
    redundant_experts: int
    replicas: int
    domain: int | None
    weights_tier: str
    experts_tier: str
    engram_tier: str
    kv_tier: str
    microbatches: int
    allreduce: str
    alltoall: str

    @property
    def stage(self) -> int:
        """Cards of one pipeline stage."""
        return self.tp * self.cp * self.attention_dp * self.attention_replicas

    @property
    def cards(self) -> int:
        return self.stage * self.pp

    @property
    def shards(self) -> int:
        """Ranks of a TP group that hold different heads."""
        return max(self.tp // self.kv_split, 1)


def ceil(number: float, parts: float = 1) -> int:
    return math.ceil(number / parts)


@dataclass(frozen=True)
class Collectives:
    """The groups of one plan of one problem, as passes of one phase use them."""

    problem: Problem
    plan: Plan
    phase: Literal["decode", "prefill"] = "decode"

    @property
    def reached(self) -> PhaseEfficiency:
        """Shares of the peaks that this phase reaches."""
        found: PhaseEfficiency = getattr(self.problem.assumptions.efficiency, self.phase)
        return found

    def levels(self, operation: str) -> list[tuple[int, float, float]]:
        """Cards of one domain, α and β of each level, the innermost as large as planned.

        Both are as the kernels of a collective find them: those of an All-to-All apart.
        """
        innermost, *outer = self.problem.hardware.levels
        sizes = [self.plan.domain or innermost.size, *(level.size for level in outer)]
        times, found = self.problem.assumptions.start_up, []
        for size, level in zip(sizes, self.problem.hardware.levels, strict=True):
            assert level.latency is not None and level.bandwidth is not None
            # One chip joins all, so nobody is further away than another.
            assert isinstance(level.topology, Switch) and (level.topology.radix or size) >= size
            rate = level.bandwidth * level.links
            stated = [self.reached.network, times.reduce]
            if operation == "all_to_all":
                stated = [self.reached.alltoall or stated[0], times.alltoall]
            if level is not innermost:
                further = [self.reached.network_across, times.reduce_across]
                if operation == "all_to_all":
                    own = self.reached.alltoall_across or self.reached.alltoall
                    further = [own or further[0], times.alltoall_across]
                stated = [f or s for f, s in zip(further, stated, strict=True)]
            share, slower = stated
            found.append((size, slower * level.latency, share * rate))
        return found

    def legs(self, operation: str, ranks: int, stride: int) -> list[tuple[float, float, int, int]]:
        """Levels that a group crosses: α, β, the ranks that one domain joins, and those inside."""
        found, inner = [], 1
        levels = self.levels(operation)
        for size, alpha, beta in levels:
            outer = ranks if size == levels[-1][0] else self.joined(ranks, stride, size)
            if outer > inner:
                found.append((alpha, beta, outer, inner))
            inner = outer
        return found

    def joined(self, ranks: int, stride: int, size: int) -> int:
        """Ranks of the largest equal parts of a group that domains of ``size`` cards hold whole."""
        parts = [part for part in range(1, ranks + 1) if ranks % part == 0]
        whole = self.plan.cards <= size
        return max(p for p in parts if whole or p == 1 or size % (p * stride) == 0)

    def half_rings(self, operation: str, ranks: int, stride: int, size: float) -> float:
        """Fastest ReduceScatter by rings inside each other, meeting at any of the domain sizes.

        An innermost domain can be cut as if it were built in any of the smaller sizes listed.
        """
        (whole, alpha, beta), *_ = self.levels(operation)
        smaller = [d for d in self.problem.hardware.levels[0].sizes if whole % d == 0 and d < whole]
        points = [(alpha, beta, self.joined(ranks, stride, d)) for d in smaller]
        points += [(a, b, outer) for a, b, outer, _ in self.legs(operation, ranks, stride)]

        def best(inner: int, some: list[tuple[float, float, int]]) -> float:
            """Seconds from parts of ``inner`` ranks on, by whatever points come next."""
            if inner == ranks:
                return 0.0
            return min(
                (outer // inner - 1) * (a + size / (outer * b)) + best(outer, some[i + 1 :])
                for i, (a, b, outer) in enumerate(some)
                if outer > inner and outer % inner == 0
            )

        return best(1, points)

    def servers(self, ranks: int, stride: int) -> int:
        size = self.problem.hardware.server.cards
        if self.plan.cards <= size or size % (ranks * stride) == 0:
            return 1
        return ranks if stride >= size else ceil(ranks * stride, size)

    def measured(self, operation: str, ranks: int, stride: int, size: float) -> float | None:
        """Seconds from the table; nothing outside the sizes that were measured.

        No example has a table whose outside matters: the formula is then above the last row.
        """
        span = self.servers(ranks, stride)
        rows = sorted(
            (row.bytes, row.seconds)
            for row in self.problem.hardware.collectives
            if (row.operation, row.ranks, row.span) == (operation, ranks, span)
        )
        if self.problem.assumptions.collective_table == "next_size_up":
            return next((seconds for known, seconds in rows if known >= size), None)
        for (low, fast), (high, slow) in pairwise(rows):
            if low <= size <= high:
                return fast + (slow - fast) * (size - low) / (high - low)
        return next((seconds for known, seconds in rows if known == size), None)

    def collective(self, operation: str, ranks: int, stride: int, size: float) -> float:
        if ranks == 1:
            return 0.0
        known = self.measured(operation, ranks, stride, size)
        if known is not None:
            return known
        legs = self.legs(operation, ranks, stride)
        alpha, beta, _, _ = legs[-1]
        if operation == "all_to_all":
            return self.all_to_all(legs, size)
        half = self.half_rings(operation, ranks, stride, size)
        ring = (ranks - 1) * (alpha + size / (ranks * beta))
        if operation in ("all_gather", "reduce_scatter"):
            return min(ring, half)
        tree = 2 * math.ceil(math.log2(ranks)) * (alpha + size / beta)
        # Behind switches all pairs are equally far, so it matters not which exchange first.
        pairs = sum(self.in_pairs(o // i, a, size / i / b) for a, b, o, i in legs)
        return {
            "ring": 2 * ring,
            "tree": tree,
            "hierarchical": 2 * half,
            "auto": min(2 * ring, tree, 2 * half),
            "recursive": pairs,
            "swing": pairs,
        }[self.plan.allreduce]

    def in_pairs(self, ranks: int, alpha: float, whole: float) -> float:
        """Recursive halving and doubling; ``whole`` is the time that the vector takes (6.5.1)."""
        seconds, ranks_left, share = 0.0, ranks, 0.5
        while ranks_left > 1:
            seconds += 2 * (alpha + share * whole)
            ranks_left, share = ranks_left // 2, share / 2
        extra = ranks & (ranks - 1)
        return seconds + (2 * (alpha + whole) if extra else 0.0)

    def all_to_all(self, legs: list[tuple[float, float, int, int]], size: float) -> float:
        """Each peer over the level that reaches it, or all inside some level over that one."""
        assert self.problem.assumptions.alltoall_levels == "added"
        peers = legs[-1][2] - 1

        def send(alpha: float, beta: float, some: int) -> float:
            rounds = some if self.plan.alltoall == "pairwise" else 1
            return rounds * alpha + size * some / peers / beta

        def first(start: int) -> float:
            alpha, beta, outer, _ = legs[start]
            rest = (send(a, b, o - i) for a, b, o, i in legs[start + 1 :])
            return send(alpha, beta, outer - 1) + sum(rest)

        return min(first(start) for start in range(len(legs)))
