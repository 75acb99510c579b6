"""A burst served by one deployment, token by token: slow, plain, and without any shortcut."""

from dataclasses import dataclass, field

import numpy as np

from costmodels.base import CostModel, StepEstimate
from costmodels.plans import PlanTable
from specs.problem import Problem
from specs.workload import Failure, SessionClass
from tests.strategies import placement


@dataclass
class Session:
    shape: SessionClass
    made: int = 0
    """Tokens produced."""
    written: int = 0
    """Tokens in KV."""
    first: float = 0.0
    end: float = 0.0

    @property
    def done(self) -> bool:
        return self.made >= self.shape.generate

    def restart(self) -> None:
        self.made, self.written = 0, self.shape.context


@dataclass
class Instance:
    """One instance with its queue; ``clock`` is when it is free for the next pass."""

    model: CostModel
    problem: Problem
    plan: PlanTable
    cap: int
    sessions: list[Session]
    failures: list[Failure]
    clock: float = 0.0
    works_again: float = 0.0
    """When the last failure is over."""
    active: list[Session] = field(default_factory=list)

    def run(self) -> None:
        for session in self.sessions:
            session.restart()
        waiting = list(self.sessions)
        while waiting or self.active:
            done = self._one_pass(waiting)
            if not done:
                # The card failed meanwhile: all that is not finished starts again, in order.
                waiting = [s for s in self.sessions if not s.done]
                self.active = []
                for session in waiting:
                    session.restart()

    def _one_pass(self, waiting: list[Session]) -> bool:
        """Admit, take in prompts, make one token each; false if a failure comes in between."""
        admitted = [waiting.pop(0) for _ in range(min(self.cap - len(self.active), len(waiting)))]
        began = [s for s in admitted if s.shape.prompt]
        if not self._pass(self._prefill_seconds(began)):
            return False
        for session in began:
            session.made, session.first = 1, self.clock
            session.written += session.shape.prompt
        self.active += admitted
        self._leave()
        if waiting and len(self.active) < self.cap:
            # A session whose prefill made its only token has left; its place is filled first.
            return True
        if self.active:
            if not self._pass(self._step_seconds()):
                return False
            for session in self.active:
                session.made += 1
                session.written += 1
                if session.made == 1:
                    session.first = self.clock
            self._leave()
        return True

    def _leave(self) -> None:
        for session in self.active:
            if session.done:
                session.end = self.clock
        self.active = [s for s in self.active if not s.done]

    def _pass(self, seconds: float) -> bool:
        """Move the clock by one pass, unless a failure comes first."""
        if self.failures and self.clock + seconds > self.failures[0].at:
            failure = self.failures.pop(0)
            self.works_again = max(self.works_again, failure.at + failure.stall)
            self.clock = self.works_again
            return False
        self.clock += seconds
        return True

    def _step_seconds(self) -> float:
        """One step; sessions are dealt to the attention shards, and the fullest sets the time."""
        shards = int(self.plan.attention_dp[0])
        dealt = [self.active[shard::shards] for shard in range(shards)]
        tokens = max(sum(s.written for s in sessions) for sessions in dealt)
        most = max(len(sessions) for sessions in dealt)
        estimate = self.model.decode(
            self.problem, self.plan, np.array([len(self.active)]), np.array([tokens / most])
        )
        return float(estimate.seconds[0])

    def _prompt_pass(self, prompt: int, prefix: int, number: int) -> StepEstimate:
        return self.model.prefill(
            self.problem,
            self.plan,
            np.array([number]),
            np.array([float(prompt)]),
            np.array([float(prefix)]),
        )

    def _prefill_seconds(self, sessions: list[Session]) -> float:
        """Sessions with equal prompts fill the attention shards together, one a shard."""
        kinds: dict[tuple[int, int], int] = {}
        for session in sessions:
            kind = (session.shape.prompt, session.shape.context)
            kinds[kind] = kinds.get(kind, 0) + 1
        total = 0.0
        for (prompt, prefix), count in kinds.items():
            # A pass for each round of shards, the last with what is left.
            shards = int(self.plan.attention_dp[0])
            rounds = [min(shards, count - start) for start in range(0, count, shards)]
            passes = [self._prompt_pass(prompt, prefix, number) for number in rounds]
            total += float(passes[0].seconds[0]) + sum(float(p.follows[0]) for p in passes[1:])
        return total


def _hits(problem: Problem, failure: Failure, start: int, cards: int) -> bool:
    """Whether a failure takes down any of ``cards`` cards from ``start``."""
    sizes = {domain.name: domain.cards for domain in problem.hardware.failures}
    block = failure.card // sizes[failure.domain]
    return any(card // sizes[failure.domain] == block for card in range(start, start + cards))


def simulate(model: CostModel, problem: Problem, plan: PlanTable) -> list[Session]:
    """All sessions of the burst, in order of arrival, under a table of one plan."""
    load = problem.workload
    sessions = [Session(c) for c in load.classes for _ in range(c.sessions or 0)]
    replicas, cards = int(plan.replicas[0]), int(plan.cards[0])
    starts = placement(problem.hardware, cards, problem.hardware.cards)[:replicas]
    for number in range(replicas):
        mine = sessions[number::replicas]
        cap = int(plan.batch[0]) or max(len(mine), 1)
        if load.serving == "one_at_a_time":
            cap = 1
        failures = [f for f in load.failures if _hits(problem, f, starts[number], cards)]
        failures.sort(key=lambda failure: failure.at)
        Instance(model, problem, plan, cap, mine, failures).run()
    return sessions
