"""Time of one decode step or one prefill, from the operators and collectives of its layers."""

import math
from dataclasses import replace

from specs.assumptions import PhaseOverheads
from specs.ffn import MoeFfn
from specs.formats import BITS
from specs.model import LayerGroup
from tests.reference import Load, Parts, Reference, ceil
from tests.shapes import Half, Kept, Mat, groups, mixer


class Passes(Reference):
    """One plan of one problem, and how long its passes take."""

    # Attention (6-4), (6.2.4)

    def pairs(self, kept: Kept, load: Load) -> float:
        """Entries that the new tokens of a sequence attend to, on the busiest rank.

        Every token is looked at: it sees what is left of those before it and of itself.
        """
        end = load.held + load.new
        if not load.prefill:
            return kept.seen(end) / self.split(kept)
        parts = self.plan.kv_split if kept.window is None else 1
        assumed, chunk = self.problem.assumptions, load.new / self.plan.cp
        if assumed.prefill_context == "middle":
            return chunk * kept.seen(load.held + load.new / 2) / parts
        if assumed.cp_layout == "zigzag":
            total = sum(kept.seen(load.held + i) for i in range(1, load.new + 1))
            return total / self.plan.cp / parts
        assert chunk == int(chunk), "a whole number of tokens on the last rank"
        return sum(kept.seen(end - i) for i in range(int(chunk))) / parts

    def entries_read(self, kept: Kept, load: Load) -> float:
        if not load.prefill or self.problem.assumptions.prefill_reads == "per_token":
            return self.pairs(kept, load)
        tokens = load.held + load.new
        if kept.window is None:
            return kept.left(tokens) / self.plan.kv_split
        return min(tokens, load.new / self.plan.cp + kept.window)

    def attention(self, half: Half, load: Load) -> Parts:
        rows = self.tokens(load)
        found = self.products([m for m in half.matrices if m.every == 1], rows)
        for matrix in half.matrices:
            if matrix.every > 1:
                found += self.products([matrix], self.completed(matrix.every, load))
        for matrix in half.matrices:
            if matrix.again:
                # Keys and values of the prefix are made once more; the matrix is there already.
                # CP ranks gather latents, so each also makes those of the tokens of others.
                others = load.new * (1 - 1 / self.plan.cp)
                flops = 2 * load.rows * (load.held + others) * self.read(matrix)[0]
                found += self.operator(matrix.tensor, flops, 0)
        for kept in half.kept:
            heads = ceil(kept.query_heads, self.holders(kept)) if kept.dealt else kept.query_heads
            flops = kept.operations * heads * load.rows * self.pairs(kept, load)
            size = load.rows * self.entries_read(kept, load) * self.entry(kept)
            found += self.operator(kept.tensor, flops, size)
        for state in half.states:
            if state.passed:
                flops = state.operations * ceil(state.heads, self.plan.tp) * rows
                found += self.operator("state", flops, 2 * load.rows * self.state(state))
        return found + Parts(network=self.attention_exchange(half, load))

    def completed(self, every: int, load: Load) -> float:
        """Entries of ``every`` tokens that the new tokens complete, on one card."""
        end = load.held + load.new
        found = load.rows * (end // every - load.held // every)
        return found / self.plan.cp if load.prefill else found

    def attention_exchange(self, half: Half, load: Load) -> float:
        plan, rows = self.plan, self.tokens(load)
        heads = ceil(half.heads, plan.shards)
        # Partial outputs in FP32, each with its largest score and its sum.
        partial = rows * heads * (half.output + 2) * 4
        seconds = 0.0
        if any(kept.window is None for kept in half.kept):
            queries = rows * heads * half.query * self.number("activations")
            seconds += self.collective("all_gather", plan.kv_split, 1, queries)
            seconds += self.collective("reduce_scatter", plan.kv_split, 1, partial)
            if not load.prefill:
                merged = partial / plan.kv_split
                seconds += self.collective("allreduce", plan.cp, plan.tp, merged)
        if load.prefill and (gathered := self.gathered(half, load)):
            seconds += self.collective("all_gather", plan.cp, plan.tp, gathered)
        if half.there:
            size = self.sum_bytes(rows, self.problem.model.hidden)
            seconds += self.collective("allreduce", plan.tp, 1, size)
        return seconds

    def gathered(self, half: Half, load: Load) -> float:
        """What CP ranks get from each other: all entries, windows of both pieces, and states."""
        tokens, size = load.held + load.new, 0.0
        for kept in half.kept:
            if kept.owned:
                count = kept.left(tokens) / self.plan.kv_split
                if kept.window is not None:
                    count = min(tokens, 2 * self.plan.cp * kept.window)
                size += count * self.entry(kept)
        size += sum(self.plan.cp * self.state(s) for s in half.states if s.passed)
        return load.rows * size

    # Experts (6-8)

    def mixture(self, ffn: MoeFfn, load: Load) -> Parts:
        plan = self.plan
        assert self.problem.assumptions.routing == "uniform_without_replacement"
        assert self.problem.assumptions.expert_split == "whole"
        tokens = load.whole * load.new
        active = ffn.experts * (1 - (1 - ffn.top_k / ffn.experts) ** tokens)
        copies = 1 + plan.redundant_experts / ffn.experts
        read = min(max(active / plan.ep * copies, 1.0 if tokens else 0.0), self.slots(ffn))
        numbers, size = self.one_expert(ffn)
        tasks = tokens * ffn.top_k / plan.ep
        found = self.operator("experts", 2 * tasks * numbers, read * size)
        return found + Parts(network=self.exchange(ffn, load))

    def exchange(self, ffn: MoeFfn, load: Load) -> float:
        """Reductions where attention is whole (6.3.1), dispatch and combine where it is dealt."""
        plan, rows = self.plan, self.tokens(load)
        hidden = self.problem.model.hidden
        width = ffn.latent or hidden
        if plan.attention_dp == 1:
            size = self.sum_bytes(load.rows * load.new, width)
            seconds = self.collective("allreduce", plan.expert_tp, 1, size)
            seconds += self.collective("allreduce", plan.ep, plan.expert_tp, size)
            if ffn.latent and ffn.shared_intermediate:
                # These sums are of latent vectors; the shared experts give whole ones.
                shared = self.sum_bytes(rows, hidden)
                seconds += self.collective("allreduce", plan.tp, 1, shared)
            return seconds
        assert self.problem.assumptions.a2a_dedup == "none"
        # Each lane of a shard holds its tokens; the lanes of an expert split what they send.
        lanes = plan.tp if load.prefill else plan.tp * plan.cp
        inner_ranks = min(plan.expert_tp, lanes)
        share = self.sum_bytes(rows * inner_ranks / lanes, width)
        seconds = self.collective("allreduce", inner_ranks, 1, share)
        remote = rows * plan.expert_tp / lanes * ffn.top_k * (plan.ep - 1) / plan.ep
        for dtype in ("dispatch_dtype", "combine_dtype"):
            chosen = getattr(self.problem.assumptions, dtype)
            number = BITS[chosen] / 8 if chosen else self.number("activations")
            seconds += self.collective(
                "all_to_all", plan.ep, plan.expert_tp, remote * width * number
            )
        # Shards that are one expert group together see each other's tokens, and split the sums.
        shards = max(plan.expert_tp // lanes, 1)
        vectors = rows * width * self.number("activations")
        sums = self.sum_bytes(shards * rows, width)
        seconds += self.collective("all_gather", shards, lanes, shards * vectors)
        seconds += self.collective("reduce_scatter", shards, lanes, sums)
        if ffn.shared_intermediate:
            size = self.sum_bytes(rows, hidden)
            seconds += self.collective("allreduce", plan.tp, 1, size)
        sharing = lanes // inner_ranks
        return seconds + self.collective("all_gather", sharing, inner_ranks, vectors)

    # Layers and passes

    def layer(self, group: LayerGroup, load: Load, *, rows_read: bool = True) -> Parts:
        model, rows = self.problem.model, self.tokens(load)
        mixing, feeding = self.halves(group, prefill=load.prefill)
        found = Parts()
        for half in (mixing, feeding):
            if half.there:
                found += self.products(self.mixer.matrices, rows)
                found += self.elementwise(self.learned(half, idle=False))
        if mixing.there:
            found += self.attention(mixing, load)
        if feeding.there:
            found += self.products(feeding.matrices, rows)
            if isinstance(group.ffn, MoeFfn):
                found += self.mixture(group.ffn, load)
            else:
                size = self.sum_bytes(rows, model.hidden)
                found += Parts(network=self.collective("allreduce", self.plan.tp, 1, size))
        if group.engram:
            table = group.engram
            if rows_read:
                looked_up = rows * table.lookups * table.row_bytes
                found += self.operator("engram", 0, looked_up, placed="engram")
            found += self.products([Mat("engram", table.inputs, table.outputs)], rows)
        return found + Parts(network=self.unexplained(group, rows))

    def unexplained(self, group: LayerGroup, rows: float) -> float:
        """Seconds of a layer that no peak explains and nothing hides."""
        fixed = self.overheads
        seconds = self.problem.assumptions.layer_launch + fixed.layer + rows * fixed.token_layer
        return seconds + (fixed.moe_layer if isinstance(group.ffn, MoeFfn) else 0.0)

    @property
    def overheads(self) -> PhaseOverheads:
        found: PhaseOverheads = getattr(self.problem.assumptions.overheads, self.phase)
        return found

    def edges(self, load: Load) -> tuple[Parts, Parts]:
        """Embedding rows on the first stage; output head and final norm on the last."""
        model, rows = self.problem.model, self.tokens(load)
        head, share = model.formats.head, self.vocabulary()
        size = self.stored(head, model.hidden, share)
        if self.problem.assumptions.read_shards == "pooled":
            size = self.stored(head, model.hidden, model.vocab) / self.plan.stage
        # Only the last position of every sequence is projected.
        last = self.operator("head", 2 * load.rows * model.hidden * share, size)
        joined = mixer(model, last=True)
        last += self.products(joined.matrices, load.rows)
        norms = (model.hidden + joined.learned.norms) * self.number("norms")
        first = self.elementwise(rows * model.hidden * self.number("embedding"))
        return first, last + self.elementwise(norms + 4 * joined.learned.fp32)

    def seconds(self, parts: Parts) -> float:
        """Compute hides reads inside an operator, over the whole stretch, or nowhere, by port."""
        overlap = self.problem.assumptions.overlap
        if overlap == "whole_step":
            return max([*parts.reads.values(), parts.computes]) + parts.network
        if overlap == "added":
            reads = max(parts.reads.values(), default=0.0)
            return reads + parts.computes + parts.network
        assert overlap == "per_operator"
        return max(parts.longer.values(), default=0.0) + parts.network

    def forward(self, load: Load, parts: int) -> float:
        """One pass through all stages, or the slowest stage for all parts of a batch (6-7)."""
        once = {id(g): self.layer(g, load) for stage in self.stages for g, _ in stage}
        stages = [sum((once[id(g)] * n for g, n in stage), Parts()) for stage in self.stages]
        stack = groups(self.problem.model)
        without = self.seconds(
            sum((self.layer(g, load, rows_read=False) * g.count for g in stack), Parts())
        )
        first, last = self.edges(load)
        stages[0] += first
        stages[-1] += last
        times = [self.seconds(stage) for stage in stages]
        streams = max(self.problem.model.hyper_connections, 1)
        width = streams * self.problem.model.hidden
        sends = self.sends(self.tokens(load) * width * self.number("activations"))
        passing = max(sum(times) + sum(sends), parts * (max(times) + max(sends, default=0.0)))
        if not (fetched := self.fetched(load)):
            return passing
        # What follows the first block cannot start before the rows are there.
        blocks = sum(g.count for g in stack)
        later = without * (blocks - 1) / blocks + self.seconds(first) + self.seconds(last)
        return max(passing, fetched + later + sum(sends))

    def fetched(self, load: Load) -> float:
        """Seconds until the rows of Engram tables are there, asked for when the pass starts."""
        tables = [g.engram for g in groups(self.problem.model) for _ in range(g.count) if g.engram]
        tokens, memory = self.tokens(load), self.memory_of("engram")
        if not tables or not tokens:
            return 0.0
        rows = tokens * sum(table.lookups for table in tables)
        size = tokens * sum(table.lookups * table.row_bytes for table in tables)
        rate = self.read_rate(memory) * self.reached.memory
        seconds = max(size / rate, rows / (memory.random_reads or math.inf))
        if self.plan.engram_tier in ("hbm", "sram", "rom"):
            away = size * (1 - 1 / self.plan.stage)
            seconds += self.collective("all_to_all", self.plan.stage, 1, away)
        return seconds + (memory.latency or 0.0)

    def step(self, batch: int, context: float) -> float:
        """Seconds of one token for each of ``batch`` sessions of an instance."""
        plan = self.plan
        parts = min(plan.microbatches, batch) if plan.pp > 1 else 1
        tokens = ceil(batch, parts)
        load = Load(False, ceil(tokens, plan.attention_dp), tokens, 1, context)
        return self.forward(load, parts) + self.overhead(batch)

    def prefill(self, sequences: int, tokens: int, prefix: int) -> float:
        """Seconds until ``tokens`` tokens of each of ``sequences`` prompts are taken in."""
        rows = ceil(sequences, self.plan.attention_dp)
        load = Load(True, rows, sequences, tokens, prefix)
        taking_in = replace(self, phase="prefill")
        return taking_in.forward(load, 1) + taking_in.overhead(sequences)

    def overhead(self, batch: int) -> float:
        overhead = self.problem.assumptions.overhead
        beside = self.overheads.step + batch * self.overheads.sequence
        if not isinstance(overhead, tuple):
            return overhead + beside
        bands = (band.seconds for band in overhead if batch <= (band.up_to or math.inf))
        return next(bands) + beside

    def sends(self, size: float) -> list[float]:
        """Seconds of every hand-over between stages, each card to its counterpart."""
        found = []
        for stage in range(self.plan.pp - 1):
            cards = range(stage * self.plan.stage, (stage + 1) * self.plan.stage)
            alpha, beta = next(
                (alpha, beta)
                for domain, alpha, beta in self.levels("send")
                if all(c // domain == (c + self.plan.stage) // domain for c in cards)
            )
            found.append(alpha + size / beta)
        return found
