"""The equations of the theory text once more, one plan at a time, in plain Python.

Independent of the product's estimates: nothing of ``costmodels`` is used. It covers what the
examples need: grouped-query attention, dense networks and mixtures of experts, bursts served one
session at a time, and steady loads. Equation and section numbers are those of chapter 6.

``Plan`` names the degrees of one plan; every other degree is 1 and every algorithm as named.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from specs.model import BITS, GqaAttention, LayerGroup, MoeFfn
from specs.problem import Problem


@dataclass(frozen=True)
class Plan:
    tp: int
    pp: int
    attention_dp: int
    ep: int
    expert_tp: int
    redundant_experts: int
    replicas: int
    microbatches: int
    allreduce: str

    @property
    def stage(self) -> int:
        """Cards of one pipeline stage."""
        return self.tp * self.attention_dp

    @property
    def cards(self) -> int:
        return self.stage * self.pp


def ceil(number: float, parts: float = 1) -> int:
    return math.ceil(number / parts)


@dataclass(frozen=True)
class Parts:
    """Seconds of a stretch of one pass: on the card, and in collectives."""

    local: float = 0.0
    network: float = 0.0

    def __add__(self, other: "Parts") -> "Parts":
        return Parts(self.local + other.local, self.network + other.network)

    def __mul__(self, times: int) -> "Parts":
        return Parts(self.local * times, self.network * times)

    @property
    def seconds(self) -> float:
        return self.local + self.network


@dataclass(frozen=True)
class Reference:
    """One plan of one problem."""

    problem: Problem
    plan: Plan

    # Shares of a card

    def q_heads(self, attention: GqaAttention) -> int:
        return ceil(attention.q_heads, self.plan.tp)

    def kv_heads(self, attention: GqaAttention) -> int:
        """Beyond as many ranks as KV heads, heads are copied (6.2.2)."""
        return ceil(attention.kv_heads, self.plan.tp)

    @cached_property
    def two(self) -> float:
        """Bytes of a number; the models of the examples are all BF16."""
        formats = self.problem.model.formats
        assert all(getattr(formats, name).dtype == "bf16" for name in type(formats).model_fields)
        return BITS["bf16"] / 8

    def attention_numbers(self, attention: GqaAttention) -> float:
        """Q and output, then K and V."""
        heads = 2 * self.q_heads(attention) + 2 * self.kv_heads(attention)
        return heads * attention.head_dim * self.problem.model.hidden

    def norm_numbers(self, group: LayerGroup) -> int:
        per_head = 2 * group.attention.head_dim if group.attention.qk_norm else 0
        return 2 * self.problem.model.hidden + per_head

    def expert_numbers(self, ffn: MoeFfn) -> int:
        """One expert on one card: three matrices, split over expert TP."""
        return 3 * self.problem.model.hidden * ceil(ffn.intermediate, self.plan.expert_tp)

    def slots(self, ffn: MoeFfn) -> int:
        return ceil(ffn.experts + self.plan.redundant_experts, self.plan.ep)

    def dense_numbers(self, intermediate: int) -> int:
        return 3 * self.problem.model.hidden * ceil(intermediate, self.plan.tp)

    def vocabulary_numbers(self) -> int:
        return ceil(self.problem.model.vocab, self.plan.tp) * self.problem.model.hidden

    def kv_bytes(self, group: LayerGroup) -> float:
        """Bytes of one token in one layer."""
        return 2 * self.kv_heads(group.attention) * group.attention.head_dim * self.two

    # Memory (6-1)

    def layer_bytes(self, group: LayerGroup) -> float:
        model, ffn = self.problem.model, group.ffn
        numbers = self.attention_numbers(group.attention) + self.norm_numbers(group)
        if isinstance(ffn, MoeFfn):
            numbers += self.slots(ffn) * self.expert_numbers(ffn) + model.hidden * ffn.experts
        else:
            numbers += self.dense_numbers(ffn.intermediate)
        return numbers * self.two

    @cached_property
    def stages(self) -> list[list[tuple[LayerGroup, int]]]:
        """How many layers of which group every stage holds, in order.

        The first stages take the layers left over.
        """
        layers = [
            i for i, group in enumerate(self.problem.model.layers) for _ in range(group.count)
        ]
        found, start = [], 0
        for stage in range(self.plan.pp):
            size = len(layers) // self.plan.pp + (stage < len(layers) % self.plan.pp)
            here = layers[start : start + size]
            found.append([(self.problem.model.layers[i], here.count(i)) for i in sorted({*here})])
            start += size
        return found

    def memory(self, held: list[float]) -> float:
        """Bytes on the fullest card with ``held`` sessions of each class on every rank."""
        model, classes = self.problem.model, self.problem.workload.classes
        assert not model.tied_embeddings
        tokens = sum(
            n * (c.context + c.prompt + c.generate) for n, c in zip(held, classes, strict=True)
        )
        most = 0.0
        for number, layers in enumerate(self.stages):
            size = sum(n * (self.layer_bytes(g) + self.kv_bytes(g) * tokens) for g, n in layers)
            if number == 0:
                size += self.vocabulary_numbers() * self.two
            if number == self.plan.pp - 1:
                size += (self.vocabulary_numbers() + model.hidden) * self.two
            most = max(most, size)
        return most + self.activations(sum(held)) + self.problem.assumptions.workspace

    def activations(self, sessions: float) -> float:
        """Residual stream, largest intermediate of any layer, and logits in FP32."""
        if self.problem.assumptions.activations == "in_workspace":
            return 0.0
        model, plan = self.problem.model, self.plan
        rows = max(sessions, *(float(c.prompt) for c in self.problem.workload.classes))
        largest = 0.0
        for group in model.layers:
            heads = self.q_heads(group.attention) + 2 * self.kv_heads(group.attention)
            largest = max(largest, rows * (model.hidden + heads * group.attention.head_dim))
            if isinstance(group.ffn, MoeFfn):
                per_row = 2 * ceil(group.ffn.intermediate, plan.expert_tp) + model.hidden
                routed = rows * group.ffn.top_k * plan.attention_dp / plan.ep
                largest = max(largest, routed * per_row)
            else:
                largest = max(largest, rows * 2 * ceil(group.ffn.intermediate, plan.tp))
        logits = sessions * ceil(model.vocab, plan.tp) * 4
        return (rows * model.hidden + largest) * self.two + logits

    # Collectives (6-9), (6-10)

    def links(self, ranks: int, stride: int) -> tuple[float, float]:
        """Start-up time and bandwidth of the innermost level that joins the group."""
        for level in self.problem.hardware.levels:
            if self.plan.cards <= level.size or level.size % (ranks * stride) == 0:
                return level.latency, level.bandwidth
        outermost = self.problem.hardware.levels[-1]
        return outermost.latency, outermost.bandwidth

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
        alpha, beta = self.links(ranks, stride)
        if operation == "allreduce":
            ring = 2 * (ranks - 1) * alpha + 2 * (ranks - 1) * size / (ranks * beta)
            tree = 2 * math.ceil(math.log2(ranks)) * (alpha + size / beta)
            return {"ring": ring, "tree": tree, "auto": min(ring, tree)}[self.plan.allreduce]
        if operation in ("all_gather", "reduce_scatter"):
            return (ranks - 1) * (alpha + size / (ranks * beta))
        assert operation == "all_to_all"
        return alpha + size / beta

    # One decode step (6-2), (6-4), (6-8)

    def operator(self, flops: float, size: float) -> float:
        """The longer of computing and reading (6-2)."""
        peak = self.problem.hardware.card.peak["bf16"]
        return max(flops / peak, size / self.problem.hardware.memory.hbm.bandwidth)

    def even(self) -> int:
        """Ranks that share the reads of what they all hold, by the idealisation of 6.2.2."""
        return self.plan.tp if self.problem.assumptions.read_shards == "even" else 1

    def attention(self, group: LayerGroup, rows: int, context: float) -> Parts:
        model, attention, plan = self.problem.model, group.attention, self.plan
        numbers = self.attention_numbers(attention)
        if self.problem.assumptions.read_shards == "even":
            heads = 2 * attention.q_heads + 2 * attention.kv_heads
            numbers = heads * attention.head_dim * model.hidden / plan.tp
        local = self.operator(2 * rows * numbers, numbers * self.two)
        seen = rows * (context + 1)
        flops = 4 * attention.head_dim * self.q_heads(attention) * seen
        local += self.operator(flops, seen * self.kv_bytes(group))
        return Parts(local, self.collective("allreduce", plan.tp, 1, self.sum_bytes(rows)))

    def sum_bytes(self, rows: float) -> float:
        assert self.problem.assumptions.reduce_dtype is None
        return rows * self.problem.model.hidden * self.two

    def dense(self, intermediate: int, rows: int) -> Parts:
        numbers = self.dense_numbers(intermediate)
        local = self.operator(2 * rows * numbers, numbers * self.two)
        return Parts(local, self.collective("allreduce", self.plan.tp, 1, self.sum_bytes(rows)))

    def mixture(self, ffn: MoeFfn, rows: int, tokens: int) -> Parts:
        """``rows`` tokens on the busiest rank, ``tokens`` in the whole instance."""
        plan, model = self.plan, self.problem.model
        assert self.problem.assumptions.routing == "uniform_without_replacement"
        active = ffn.experts * (1 - (1 - ffn.top_k / ffn.experts) ** tokens)
        copies = 1 + plan.redundant_experts / ffn.experts
        read = min(active / plan.ep * copies, self.slots(ffn))
        one = self.expert_numbers(ffn)
        tasks = tokens * ffn.top_k / plan.ep
        local = self.operator(2 * tasks * one, read * one * self.two)
        router = model.hidden * ffn.experts
        local += self.operator(2 * rows * router, router * self.two / self.even())
        return Parts(local, self.exchange(ffn, rows))

    def exchange(self, ffn: MoeFfn, rows: int) -> float:
        """Reductions where attention is whole (6.3.1), dispatch and combine where it is dealt."""
        plan, model = self.plan, self.problem.model
        if plan.attention_dp == 1:
            inner = self.collective("allreduce", plan.expert_tp, 1, self.sum_bytes(rows))
            outer = self.collective("allreduce", plan.ep, plan.expert_tp, self.sum_bytes(rows))
            return inner + outer
        # Each lane of a shard holds its tokens; the lanes of an expert split what they send.
        inner_ranks = min(plan.expert_tp, plan.tp)
        share = rows * inner_ranks / plan.tp
        seconds = self.collective("allreduce", inner_ranks, 1, self.sum_bytes(share))
        remote = rows * plan.expert_tp / plan.tp * ffn.top_k * (plan.ep - 1) / plan.ep
        sent = remote * model.hidden * self.two
        seconds += 2 * self.collective("all_to_all", plan.ep, plan.expert_tp, sent)
        # Shards that are one expert group together see each other's tokens, and split the sums.
        shards = max(plan.expert_tp // plan.tp, 1)
        all_rows = self.sum_bytes(shards * rows)
        seconds += self.collective("all_gather", shards, plan.tp, all_rows)
        seconds += self.collective("reduce_scatter", shards, plan.tp, all_rows)
        lanes = plan.tp // inner_ranks
        return seconds + self.collective("all_gather", lanes, inner_ranks, self.sum_bytes(rows))

    def layer(self, group: LayerGroup, rows: int, tokens: int, context: float) -> Parts:
        parts = self.attention(group, rows, context)
        if isinstance(group.ffn, MoeFfn):
            parts += self.mixture(group.ffn, rows, tokens)
        else:
            parts += self.dense(group.ffn.intermediate, rows)
        if self.problem.assumptions.count_norms:
            parts += Parts(self.operator(0, self.norm_numbers(group) * self.two))
        return parts

    def edges(self, rows: int) -> tuple[Parts, Parts]:
        """Embedding rows on the first stage; output head and final norm on the last."""
        hidden = self.problem.model.hidden
        numbers = self.vocabulary_numbers()
        last = Parts(self.operator(2 * rows * numbers, numbers * self.two))
        if not self.problem.assumptions.count_norms:
            return Parts(), last
        first = Parts(self.operator(0, rows * hidden * self.two))
        return first, last + Parts(self.operator(0, hidden * self.two))

    def step(self, batch: int, context: float) -> float:
        """Seconds of one token for each of ``batch`` sessions of an instance."""
        assert self.problem.assumptions.overlap == "per_operator"
        plan = self.plan
        parts = min(plan.microbatches, batch) if plan.pp > 1 else 1
        tokens = ceil(batch, parts)
        rows = ceil(tokens, plan.attention_dp)
        first, last = self.edges(rows)
        stages = []
        for layers in self.stages:
            stage = Parts()
            for group, count in layers:
                stage += self.layer(group, rows, tokens, context) * count
            stages.append(stage)
        stages[0] += first
        stages[-1] += last
        times = [stage.seconds for stage in stages]
        sends = self.sends(self.sum_bytes(rows))
        # A token passes all stages; the slowest stage serves all micro-batches.
        return max(sum(times) + sum(sends), parts * (max(times) + max(sends, default=0.0)))

    def sends(self, size: float) -> list[float]:
        """Seconds of every hand-over between stages, each card to its counterpart."""
        found = []
        for stage in range(self.plan.pp - 1):
            cards = range(stage * self.plan.stage, (stage + 1) * self.plan.stage)
            level = next(
                level
                for level in self.problem.hardware.levels
                if all(c // level.size == (c + self.plan.stage) // level.size for c in cards)
            )
            found.append(level.latency + size / level.bandwidth)
        return found

    # What becomes of the sessions, and (6-13)

    def price(self, seconds: float, on_time: float) -> float:
        """Cost per on-time session of occupying the deployment for ``seconds``."""
        cards = self.plan.cards * self.plan.replicas
        if self.problem.assumptions.billing == "allocated":
            cards = self.problem.card_limit
        cost = cards * seconds
        if self.problem.objective.currency == "money":
            cost *= self.problem.hardware.card.price or math.nan
        return cost / on_time if on_time else math.inf

    def burst(self) -> float | None:
        """Cost of a burst served one session at a time (6.7.1); ``None`` if not feasible."""
        load = self.problem.workload
        assert load.serving == "one_at_a_time" and not load.failures
        (shape,) = load.classes
        assert not shape.prompt
        count = shape.sessions or 0
        waiting = ceil(count, self.plan.replicas)
        if self.memory([float(waiting)]) > self.problem.hardware.memory.hbm.capacity:
            return None
        service = sum(self.step(1, shape.context + i) for i in range(shape.generate))
        ends = [service * (i // self.plan.replicas + 1) for i in range(count)]
        on_time = sum(end <= (shape.deadline or math.inf) for end in ends)
        if on_time < load.on_time_share * count:
            return None
        return self.price(max(ends), on_time)

    def steady(self) -> float | None:
        """Least cost of any batch within memory and limits; ``None`` if there is none."""
        load = self.problem.workload
        (shape,) = load.classes
        assert not shape.prompt and shape.deadline is None and shape.ttft is None
        half = 0.5 if self.problem.assumptions.steady_context == "mean" else 0.0
        context = shape.context + half * shape.generate
        best, batch = None, 1
        while self.memory([float(ceil(batch, self.plan.attention_dp))]) <= (
            self.problem.hardware.memory.hbm.capacity
        ):
            tpot = self.step(batch, context)
            if tpot > (shape.tpot or math.inf):
                break
            session = shape.generate * tpot / (batch * self.plan.replicas)
            cost = self.price(session, 1.0)
            best = cost if best is None else min(best, cost)
            batch += 1
        return best

    def cost(self) -> float | None:
        return self.burst() if self.problem.workload.kind == "burst" else self.steady()
