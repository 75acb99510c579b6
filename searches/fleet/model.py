"""The CP-SAT model of a fleet.

How many instances of each column stand where is a whole number; servers that are filled alike are
counted, never told apart. Every limit, demand and failure to survive holds under a literal of its
name, so that the same model says which of them cannot hold together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import Any

from costmodels.facility import servers_per_rack
from searches.fleet.question import Question
from searches.fleet.yard import Pattern
from specs.units import ROUNDING


@dataclass
class PoolVariables:
    """Servers of a pool that are filled by each pattern, and servers in use.

    ``kinds``  columns that a pattern does not tell apart
    ``mixed``  different kinds that a server may hold
    """

    kinds: list[list[int]]
    patterns: list[Pattern]
    filled: list[Any]
    used: Any
    installed: Any
    mixed: int


@dataclass
class FleetModel:
    """The model of a question.

    ``without``  names of rules that do not hold
    ``loose``    bounds all placements: small instances fill servers as if they could be cut, and
                 a failed server takes down one instance alone
    """

    question: Question
    without: frozenset[str] = frozenset()
    loose: bool = False
    rules: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from ortools.sat.python import cp_model

        self.model = cp_model.CpModel()
        question, yards = self.question, self.question.yards
        self.most = [yards[c.pool].held(yards[c.pool].cards, c.cards) for c in question.columns]
        self.count = [self.model.new_int_var(0, m, f"n{i}") for i, m in enumerate(self.most)]
        self.taken: dict[str, Any] = {}
        self._serve()
        self.pools = [self._pool(g) for g in range(len(yards))]
        self._fail()
        self._limit()
        self.cost = self._cost()

    def rule(self, name: str) -> Any:
        """Return the literal under which a rule holds."""
        if name not in self.rules:
            self.rules[name] = self.model.new_bool_var(name)
            if name in self.without:
                self.model.add(self.rules[name] == 0)
        return self.rules[name]

    def _serve(self) -> None:
        """Every cut of each demand serves what is needed."""
        question, model = self.question, self.model
        fleet = question.problem.fleet
        assert fleet is not None
        self.serving: list[list[Any]] = []
        for demand, of_demand in enumerate(question.cuts):
            totals = []
            for cut in of_demand:
                most = sum(question.serves[i] * self.most[i] for i in cut)
                total = model.new_int_var(0, most, f"served{demand}")
                model.add(total == sum(question.serves[i] * self.count[i] for i in cut))
                totals.append(total)
                rule = self.rule(f"fleet.demands.{fleet.demands[demand].name}")
                model.add(total >= question.needed[demand]).only_enforce_if(rule)
                if question.bursts:
                    model.add(total <= question.needed[demand])
            self.serving.append(totals)

    @cached_property
    def apart(self) -> bool:
        """Whether it matters which instances share a server, and not only how many cards."""
        fleet, limits = self.question.problem.fleet, self.question.problem.limits
        assert fleet is not None
        failing = bool(fleet.survive.server) or limits.blast_radius is not None
        return failing and not self.loose

    def _pool(self, pool: int) -> PoolVariables:
        """Place the instances of a pool: small ones in servers, wide ones over whole servers."""
        question, model, yard = self.question, self.model, self.question.yards[pool]
        columns, own = question.columns, question.of_pool(pool)
        small = [i for i in own if columns[i].cards <= yard.server]
        kinds = [[i] for i in small]
        if not self.apart:
            sizes = sorted({columns[i].cards for i in small})
            kinds = [[i for i in small if columns[i].cards == size] for size in sizes]
        sizes = [columns[kind[0]].cards for kind in kinds]
        patterns, mixed = ([], len(kinds)) if self.loose else yard.patterns(sizes, not self.apart)
        filled = [model.new_int_var(0, yard.servers, f"y{pool}") for _ in patterns]
        for position, kind in enumerate(kinds if patterns else ()):
            room = sum(p[position] * y for p, y in zip(patterns, filled, strict=True))
            model.add(sum(self.count[i] for i in kind) <= room)
        if self.loose:
            filled = [model.new_int_var(0, yard.servers, f"y{pool}")]
            model.add(
                sum(columns[i].cards * self.count[i] for i in small) <= filled[0] * yard.server
            )
        wide = [i for i in own if i not in small]
        spread = sum(yard.slot(columns[i].cards) // yard.server * self.count[i] for i in wide)
        used = model.new_int_var(0, yard.servers, f"servers{pool}")
        model.add(used == sum(filled) + spread)
        if wide:
            self._domains(pool, wide)
        unit = yard.hardware.facility.unit
        units = model.new_int_var(0, -(-yard.servers // unit), f"units{pool}")
        model.add_linear_constraint(units * unit - used, 0, unit - 1)
        return PoolVariables(kinds, patterns, filled, used, units * unit, min(mixed, len(kinds)))

    def _domains(self, pool: int, wide: Sequence[int]) -> None:
        """Instances over several servers lie in one block of the smallest kind that holds them."""
        question, model, yard = self.question, self.model, self.question.yards[pool]
        columns = question.columns
        blocked: Any = 0
        for block in reversed(yard.above):
            here = [i for i in wide if yard.block(columns[i].cards) == block]
            rooms = [block] * (yard.cards // block)
            rooms += [yard.cards % block] if yard.cards % block else []
            inside = []
            for number, room in enumerate(rooms):
                placed = {
                    i: model.new_int_var(0, yard.held(room, columns[i].cards), f"d{number}")
                    for i in here
                }
                inside.append(placed)
                load = sum(yard.slot(columns[i].cards) * n for i, n in placed.items())
                model.add(load <= room)
            for i in here:
                model.add(self.count[i] == sum(placed[i] for placed in inside))
            if here:
                self._unblocked(inside, rooms, blocked, block)
            blocked = blocked + sum(yard.slot(columns[i].cards) * self.count[i] for i in here)

    def _unblocked(
        self, inside: list[dict[int, Any]], rooms: list[int], blocked: Any, block: int
    ) -> None:
        """Use no more blocks than wider instances leave, the first ones first."""
        opened = [self.model.new_bool_var("open") for _ in inside]
        for placed, is_open in zip(inside, opened, strict=True):
            for n in placed.values():
                self.model.add(n == 0).only_enforce_if(is_open.negated())
        # Wider instances take whole blocks, so none of the last one if that is cut off.
        whole = [o for o, room in zip(opened, rooms, strict=True) if room == block]
        self.model.add(sum(o * block for o in whole) <= len(whole) * block - blocked)
        for first, second in pairwise(whole):
            self.model.add_implication(second, first)

    def _fail(self) -> None:
        """What a failure takes down may be missing, or not exceed the largest share."""
        fleet = self.question.problem.fleet
        assert fleet is not None
        if self.apart:
            for number, pool in enumerate(self.pools):
                for pattern, filled in zip(pool.patterns, pool.filled, strict=True):
                    held = {k[0]: n for k, n in zip(pool.kinds, pattern, strict=True) if n}
                    self._lose(held, self._some(filled), number)
        for i, count in enumerate(self.count):
            yard = self.question.yards[self.question.columns[i].pool]
            some = self._some(count)
            if fleet.survive.card:
                self._serve_without({i: 1}, some, "fleet.survive.card")
            if fleet.survive.server and self.loose:
                self._serve_without({i: 1}, some, "fleet.survive.server")
            if self.question.columns[i].cards > yard.server and self.apart:
                self._lose({i: 1}, some, self.question.columns[i].pool)

    def _some(self, count: Any) -> Any:
        """Return whether there is any."""
        some = self.model.new_bool_var("some")
        self.model.add(count == 0).only_enforce_if(some.negated())
        self.model.add(count >= 1).only_enforce_if(some)
        return some

    def _lose(self, held: dict[int, int], some: Any, pool: int) -> None:
        """One server that holds these instances may fail."""
        fleet, limits = self.question.problem.fleet, self.question.problem.limits
        assert fleet is not None
        if fleet.survive.server:
            self._serve_without(held, some, "fleet.survive.server")
        if limits.blast_radius is not None:
            hardware = self.question.yards[pool].hardware
            widest = max(d.cards for d in hardware.failures)
            servers = max(1, -(-widest // hardware.server.cards))
            self._within_radius({i: n * servers for i, n in held.items()}, some)

    def _serve_without(self, held: dict[int, int], some: Any, name: str) -> None:
        question = self.question
        for demand, (of_demand, totals) in enumerate(zip(question.cuts, self.serving, strict=True)):
            for cut, total in zip(of_demand, totals, strict=True):
                lost = sum(question.serves[i] * n for i, n in held.items() if i in cut)
                if lost:
                    rules = [some, self.rule(name)]
                    self.model.add(total >= question.needed[demand] + lost).only_enforce_if(rules)

    def _within_radius(self, held: dict[int, int], some: Any) -> None:
        """These instances serve no more than the largest share of the sessions of a demand."""
        question, share = self.question, self.question.problem.limits.blast_radius
        assert share is not None
        decoding = [i for i, c in enumerate(question.columns) if c.role != "prefill"]
        for demand in {question.columns[i].demand for i in held}:
            own = [i for i in decoding if question.columns[i].demand == demand]
            lost = sum(question.serves[i] * n for i, n in held.items() if i in own)
            total = sum(question.serves[i] * self.count[i] for i in own)
            if lost:
                least = ceil(lost / share * (1 - ROUNDING))
                rules = [some, self.rule("limits.blast_radius")]
                self.model.add(total >= least).only_enforce_if(rules)

    def _limit(self) -> None:
        """What is taken of each limit, and that it is not more."""
        question, columns = self.question, self.question.columns
        cards = [c.cards * n for c, n in zip(columns, self.count, strict=True)]
        money = [question.price(c.pool) * x for c, x in zip(columns, cards, strict=True)]
        self.taken = {
            "cards": sum(cards),
            "servers": sum(pool.installed for pool in self.pools),
            "racks": sum(self._racks(g) for g in range(len(self.pools))),
            "power": sum(self._power(g) for g in range(len(self.pools))),
            "money_per_hour": sum(money),
        }
        for name, most in question.limits.items():
            self.model.add(self.taken[name] <= most).only_enforce_if(self.rule(f"limits.{name}"))

    def _racks(self, pool: int) -> Any:
        """Racks that hold the installed servers, each filled before the next."""
        yard = self.question.yards[pool]
        per_rack = servers_per_rack(yard.hardware)
        racks = self.model.new_int_var(0, yard.servers, f"racks{pool}")
        each = yard.servers + yard.hardware.facility.unit if per_rack is None else per_rack
        installed = self.pools[pool].installed
        self.model.add_linear_constraint(racks * each - installed, 0, each - 1)
        return racks

    def _power(self, pool: int) -> Any:
        """Milliwatts: servers, what stands beside them, and a second tier of switches."""
        yard, of_pool = self.question.yards[pool], self.pools[pool]
        facility = yard.hardware.facility
        drawn = self.question.watts(pool) * of_pool.installed
        if facility.power:
            drawn = drawn + round(facility.power * 1000) * self._some(of_pool.used)
        if facility.switch_ports is not None and facility.second_tier_power:
            second = self.model.new_bool_var("second tier")
            installed = of_pool.installed * yard.server
            ports = facility.switch_ports
            self.model.add(installed <= ports).only_enforce_if(second.negated())
            self.model.add(installed > ports).only_enforce_if(second)
            drawn = drawn + round(facility.second_tier_power * 1000) * second
        return drawn

    def _cost(self) -> Any:
        """Cost per second, or of a burst: all is held until its last session ends.

        What is held is what instances take, or, where all is allocated, every pool.
        """
        question, model = self.question, self.model
        currency = question.problem.objective.currency
        name = {"gpu_seconds": "cards", "money": "money_per_hour", "joules": "power"}[currency]
        most = question.all_of(name)
        held = model.new_int_var(0, most, "held")
        allocated = question.problem.assumptions.billing == "allocated"
        model.add(held == (most if allocated else self.taken[name]))
        if not question.bursts:
            return held
        self.last = model.new_int_var_from_domain(_values(question.seconds), "last")
        for seconds in sorted(set(question.seconds)):
            ending = [self.count[i] for i, s in enumerate(question.seconds) if s == seconds]
            model.add(self.last >= seconds).only_enforce_if(self._some(sum(ending)))
        cost = model.new_int_var(0, most * max(question.seconds), "cost")
        model.add_multiplication_equality(cost, [held, self.last])
        return cost


def _values(numbers: Sequence[int]) -> Any:
    from ortools.sat.python import cp_model

    return cp_model.Domain.from_values(sorted(set(numbers)))
