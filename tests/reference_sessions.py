"""What becomes of the sessions of a load under one plan, and what they cost (6-13)."""

import math

from tests.reference_collectives import ceil
from tests.reference_passes import Passes


class Sessions(Passes):
    """One plan of one problem: bursts served one session at a time, and steady loads."""

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
        if not self.fits([float(waiting)]):
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
        while self.fits([float(ceil(batch, self.plan.attention_dp))]):
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
