"""The equations of the theory text once more, one plan at a time, in plain Python.

Independent of the product's estimates: nothing of ``costmodels`` is used, and what a layer consists
of is read a second time in ``tests.shapes``. It covers stacks of every kind of attention and
network under the axes of :class:`Plan`; every other degree is neutral. Equation and section
numbers are those of chapter 6. What becomes of sessions is in ``tests.reference_sessions``.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from specs.ffn import MoeFfn
from specs.formats import BITS, KvFormat, StoredFormat
from specs.model import LayerGroup
from specs.problem import Problem
from tests.shapes import (
    Fixed,
    Half,
    Kept,
    Mat,
    attention,
    expert,
    groups,
    mixer,
    network,
)


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


@dataclass(frozen=True)
class Load:
    """One forward pass: ``rows`` sequences on the busiest rank, ``whole`` in the instance.

    Each feeds in ``new`` tokens, and holds ``held`` already.
    """

    prefill: bool
    rows: int
    whole: int
    new: int
    held: float


def ceil(number: float, parts: float = 1) -> int:
    return math.ceil(number / parts)


@dataclass(frozen=True)
class Parts:
    """Seconds of a stretch of one pass: reading, computing, the longer of both, and collectives."""

    reads: float = 0.0
    computes: float = 0.0
    longer: float = 0.0
    network: float = 0.0

    def __add__(self, other: "Parts") -> "Parts":
        return Parts(
            self.reads + other.reads,
            self.computes + other.computes,
            self.longer + other.longer,
            self.network + other.network,
        )

    def __mul__(self, times: int) -> "Parts":
        return Parts(*(x * times for x in (self.reads, self.computes, self.longer, self.network)))


@dataclass(frozen=True)
class Reference:
    """One plan of one problem."""

    problem: Problem
    plan: Plan

    # Shares of a card

    def ranks(self, matrix: Mat) -> int:
        if matrix.tensor == "experts":
            return self.plan.expert_tp
        return {"": 1, "kv": self.plan.shards}.get(matrix.dealt, self.plan.tp)

    def share(self, matrix: Mat) -> tuple[int, int]:
        """Rows and columns on one card: whole units, the last rank padded."""
        whole = matrix.rows if matrix.side == "rows" else matrix.columns
        mine = ceil(matrix.units, self.ranks(matrix)) * (whole // matrix.units)
        mine = mine if matrix.dealt else whole
        return (mine, matrix.columns) if matrix.side == "rows" else (matrix.rows, mine)

    def stored(self, fmt: StoredFormat, rows: int, columns: int) -> float:
        """Bytes of a matrix with its scales, one for each block or group that it touches."""
        scales = 0
        if fmt.block:
            scales = ceil(rows, fmt.block[0]) * ceil(columns, fmt.block[1])
        elif fmt.group:
            scales = ceil(rows, fmt.group) * columns
        return rows * columns * BITS[fmt.dtype] / 8 + scales * BITS[fmt.scale] / 8

    def number(self, tensor: str) -> float:
        """Bytes of a plain number of a tensor class."""
        return BITS[getattr(self.problem.model.formats, tensor).dtype] / 8

    def matrix_bytes(self, matrix: Mat) -> float:
        fmt = getattr(self.problem.model.formats, matrix.tensor)
        return self.stored(fmt, *self.share(matrix))

    @cached_property
    def known(self) -> dict[object, Any]:
        """What has been worked out already."""
        return {}

    def read(self, matrix: Mat) -> tuple[float, float]:
        """Numbers that a card multiplies, and bytes that it reads, by the idealisation of 6.2.2."""
        if matrix not in self.known:
            self.known[matrix] = self._read(matrix)
        numbers, size = self.known[matrix]
        return numbers, size

    def _read(self, matrix: Mat) -> tuple[float, float]:
        assumed = self.problem.assumptions.read_shards
        rows, columns = self.share(matrix)
        if assumed == "exact":
            return rows * columns, self.matrix_bytes(matrix)
        fmt = getattr(self.problem.model.formats, matrix.tensor)
        whole = self.stored(fmt, matrix.rows, matrix.columns)
        if assumed == "even":
            numbers = matrix.numbers / (self.plan.tp if matrix.dealt else 1)
            return numbers, whole / self.plan.tp
        return rows * columns, whole / self.plan.stage

    def held(self, matrix: Mat) -> float:
        """Bytes that a card holds: evenly where dealt, by the idealisation of 6.2.2."""
        if matrix.dealt and self.problem.assumptions.read_shards == "even":
            fmt = getattr(self.problem.model.formats, matrix.tensor)
            return self.stored(fmt, matrix.rows, matrix.columns) / self.plan.tp
        return self.matrix_bytes(matrix)

    def entry(self, kept: Kept) -> float:
        """Bytes of one kept entry on a rank that holds its heads (6.2.2)."""
        formats = self.problem.model.formats
        fmt: KvFormat = getattr(formats, kept.tensor) or formats.kv
        apart = kept.positional if fmt.rope else 0
        size = (kept.width - apart) * BITS[fmt.dtype] / 8 + fmt.padding
        if fmt.rope:
            size += apart * BITS[fmt.rope] / 8
        if fmt.group:
            size += ceil(kept.width - apart, fmt.group) * BITS[fmt.scale] / 8
        return kept.vectors * size * ceil(kept.heads, self.holders(kept))

    def holders(self, kept: Kept) -> int:
        """Ranks of a TP group with different heads; a window is too short to share."""
        return self.plan.shards if kept.window is None else self.plan.tp

    def state(self, state: Fixed) -> float:
        return ceil(state.heads, self.plan.tp) * state.numbers * self.number(state.tensor)

    def split(self, kept: Kept) -> int:
        """Ranks among which the entries of one sequence are split."""
        return 1 if kept.window is not None else self.plan.kv_split * self.plan.cp

    def slots(self, ffn: MoeFfn) -> int:
        return ceil(ffn.experts + self.plan.redundant_experts, self.plan.ep)

    def one_expert(self, ffn: MoeFfn) -> tuple[float, float]:
        """Numbers and bytes of one expert on one card."""
        matrices, biases = expert(ffn, self.problem.model.hidden)
        numbers = sum(math.prod(self.share(m)) for m in matrices)
        size = sum(self.matrix_bytes(m) for m in matrices)
        return numbers, size + biases / self.plan.expert_tp * self.number("norms")

    def vocabulary(self) -> int:
        return ceil(self.problem.model.vocab, self.plan.tp)

    def halves(self, group: LayerGroup, *, prefill: bool) -> list[Half]:
        hidden, key = self.problem.model.hidden, (id(group), prefill)
        if key not in self.known:
            mixing = attention(group.attention, hidden, prefill=prefill)
            self.known[key] = [mixing, network(group.ffn, hidden)]
        both: list[Half] = self.known[key]
        return both

    @cached_property
    def mixer(self) -> Half:
        return mixer(self.problem.model)

    # Memory (6-1)

    def learned(self, half: Half, *, idle: bool) -> float:
        """Norm before the half, and what multiplies elementwise in it and in its mixer."""
        if not half.there:
            return 0.0
        both = half.learned + self.mixer.learned
        size = (self.problem.model.hidden + both.norms) * self.number("norms") + 4 * both.fp32
        return size + (4 * both.idle_fp32 + 8 * both.idle_int64 if idle else 0)

    def layer_bytes(self, group: LayerGroup) -> float:
        size = 0.0
        for half in self.halves(group, prefill=False):
            mixing = self.mixer.matrices if half.there else []
            size += sum(self.held(m) for m in (*half.matrices, *mixing))
            size += self.learned(half, idle=True)
        if isinstance(group.ffn, MoeFfn):
            size += self.slots(group.ffn) * self.one_expert(group.ffn)[1]
        if group.engram:
            table = group.engram
            fmt = self.problem.model.formats.engram
            size += table.rows * table.row_bytes / self.plan.stage
            size += self.stored(fmt, table.inputs, table.outputs)
            size += table.weights * self.number("norms")
        return size

    def session_bytes(self, group: LayerGroup, tokens: int) -> float:
        """What one session keeps in one layer."""
        half = attention(group.attention, self.problem.model.hidden)
        size = sum(self.entry(k) * k.left(tokens) / self.split(k) for k in half.kept if k.owned)
        counted = self.problem.assumptions.compressor_state == "counted"
        return size + sum(self.state(s) for s in half.states if s.passed or counted)

    @cached_property
    def stages(self) -> list[list[tuple[LayerGroup, int]]]:
        """How many layers of which group every stage holds, in order.

        The first stages take the layers left over.
        """
        stack = groups(self.problem.model)
        layers = [i for i, group in enumerate(stack) for _ in range(group.count)]
        found, start = [], 0
        for stage in range(self.plan.pp):
            size = len(layers) // self.plan.pp + (stage < len(layers) % self.plan.pp)
            here = layers[start : start + size]
            found.append([(stack[i], here.count(i)) for i in sorted({*here})])
            start += size
        return found

    @cached_property
    def stage_weights(self) -> list[float]:
        """Bytes of the weights of every stage."""
        model, plan = self.problem.model, self.plan
        found = [sum(n * self.layer_bytes(group) for group, n in stage) for stage in self.stages]
        rows = self.vocabulary()
        found[0] += self.stored(model.formats.embedding, rows, model.hidden)
        for module in model.modules:
            found[0] += module.bytes / (plan.tp if module.spread else 1)
        if not (model.tied_embeddings and plan.pp == 1):
            found[-1] += self.stored(model.formats.head, model.hidden, rows)
        last = mixer(model, last=True)
        found[-1] += sum(self.held(m) for m in last.matrices)
        found[-1] += (model.hidden + last.learned.norms) * self.number("norms")
        found[-1] += 4 * last.learned.fp32
        return found

    @cached_property
    def stage_sessions(self) -> list[list[float]]:
        """Bytes that a session of each class keeps in every stage at its end."""
        peaks = [c.context + c.prompt + c.generate for c in self.problem.workload.classes]
        return [
            [sum(n * self.session_bytes(group, peak) for group, n in stage) for peak in peaks]
            for stage in self.stages
        ]

    def memory(self, held: list[float]) -> float:
        """Bytes on the fullest card with ``held`` sessions of each class on every rank."""
        assert self.problem.assumptions.capacity == "per_card"
        most = 0.0
        for weights, sessions in zip(self.stage_weights, self.stage_sessions, strict=True):
            kept = sum(n * size for n, size in zip(held, sessions, strict=True))
            most = max(most, weights + kept)
        return most + self.activations(sum(held)) + self.problem.assumptions.workspace

    def activations(self, sessions: float) -> float:
        """Residual stream, largest intermediate of any layer, and logits in FP32."""
        if self.problem.assumptions.activations == "in_workspace":
            return 0.0
        model, plan = self.problem.model, self.plan
        longest = max(c.prompt for c in self.problem.workload.classes)
        rows = max(sessions, longest / plan.cp)
        streams = max(model.hyper_connections, 1)
        numbers = rows * (streams * model.hidden + self.intermediate)
        return numbers * self.number("activations") + sessions * self.vocabulary() * 4

    @cached_property
    def intermediate(self) -> float:
        """Largest intermediate of any layer, in numbers for each row."""
        model, plan, largest = self.problem.model, self.plan, 0.0
        for group in groups(model):
            widths = [
                sum(self.share(m)[1] for m in half.matrices if m.side == "columns")
                for half in self.halves(group, prefill=True)
            ]
            largest = max(largest, model.hidden + widths[0])
            if isinstance(group.ffn, MoeFfn):
                middle = (2 if group.ffn.gated else 1) * ceil(
                    group.ffn.intermediate, plan.expert_tp
                )
                routed = group.ffn.top_k * plan.attention_dp / plan.ep
                largest = max(largest, routed * (middle + (group.ffn.latent or model.hidden)))
            else:
                largest = max(largest, widths[1])
        return largest

    # Collectives (6-9), (6-10)

    @property
    def levels(self) -> list[tuple[int, float, float]]:
        """Cards of one domain, α and β of each level, the innermost as large as planned."""
        innermost, *outer = self.problem.hardware.levels
        sizes = [self.plan.domain or innermost.size, *(level.size for level in outer)]
        found = []
        for size, level in zip(sizes, self.problem.hardware.levels, strict=True):
            assert level.latency is not None and level.bandwidth is not None
            found.append((size, level.latency, level.bandwidth * level.links))
        return found

    def legs(self, ranks: int, stride: int) -> list[tuple[float, float, int, int]]:
        """Levels that a group crosses: α, β, the ranks that one domain joins, and those inside.

        Joined are the largest equal parts of the group that domains hold whole.
        """
        found, inner = [], 1
        for size, alpha, beta in self.levels:
            whole = self.plan.cards <= size or size == self.levels[-1][0]
            outer = max(
                part
                for part in range(1, ranks + 1)
                if ranks % part == 0 and (whole or part == 1 or size % (part * stride) == 0)
            )
            if outer > inner:
                found.append((alpha, beta, outer, inner))
            inner = outer
        return found

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
        legs = self.legs(ranks, stride)
        alpha, beta, _, _ = legs[-1]
        if operation == "all_to_all":
            return self.all_to_all(legs, size)
        # One ring inside another: the share of a card shrinks on the way out.
        half = sum((o / i - 1) * (a + size / i / (o / i * b)) for a, b, o, i in legs)
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

    # Operators (6-2)

    def operator(self, tensor: str, flops: float, size: float) -> Parts:
        """Computing and reading overlap inside one operator (6-2)."""
        computes = flops / self.peak(tensor)
        reads = size / self.problem.hardware.memory.hbm.bandwidth
        return Parts(reads, computes, max(reads, computes))

    def peak(self, tensor: str) -> float:
        """Rate of the format in which a class is multiplied; the machine must state it."""
        formats = self.problem.model.formats
        assert self.problem.assumptions.matmul_dtype == "own"
        dtype = formats.activations.dtype
        if tensor in ("kv", "index", "window"):
            dtype = (getattr(formats, tensor) or formats.kv).compute or dtype
        elif tensor != "state":
            dtype = getattr(formats, tensor).compute or getattr(formats, tensor).dtype
        return self.problem.hardware.card.peak[dtype]

    def products(self, matrices: Iterable[Mat], rows: float) -> Parts:
        """Products of ``rows`` vectors; the matrices of one class are one operator."""
        by_class: dict[str, list[Mat]] = {}
        for matrix in matrices:
            by_class.setdefault(matrix.tensor, []).append(matrix)
        found = Parts()
        for tensor, some in by_class.items():
            read = [self.read(m) for m in some]
            flops = sum(2 * rows * numbers for numbers, _ in read)
            found += self.operator(tensor, flops, sum(size for _, size in read))
        return found

    def elementwise(self, size: float) -> Parts:
        """Reads that multiply nothing."""
        if not self.problem.assumptions.count_norms:
            return Parts()
        ranks = {"exact": 1, "even": self.plan.tp, "pooled": self.plan.stage}
        return self.operator("head", 0, size / ranks[self.problem.assumptions.read_shards])

    def tokens(self, load: Load) -> float:
        """Vectors that a card multiplies; a prefill splits the sequence over CP."""
        return load.rows * load.new / (self.plan.cp if load.prefill else 1)

    def sum_bytes(self, rows: float, width: int) -> float:
        dtype = self.problem.assumptions.reduce_dtype
        return rows * width * (BITS[dtype] / 8 if dtype else self.number("activations"))
