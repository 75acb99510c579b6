"""Random small fleets, and the best deployment of each by trying all: no solver, no patterns."""

import itertools
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import linprog

from costmodels.plans import PlanTable
from searches.fleet.columns import Column
from searches.fleet.cuts import cuts, partners
from searches.fleet.question import Question
from searches.fleet.yard import Yard
from specs import catalog
from specs.load import load_problem

SHAPES = (
    # cards of a server, then sizes of the levels, then of the pool
    (2, (2, 4), 4),
    (4, (4,), 8),
    (4, (2, 4), 8),
    (2, (4,), 6),
    (2, (2, 8), 6),
)


def machine(server: int, levels: Sequence[int], cards: int) -> dict[str, Any]:
    """A machine of two H100 servers, built of other numbers of cards."""
    raw = dict(catalog.entry("hardware", "two-hgx-h100"))
    raw.pop("failure_domains", None)
    raw |= {
        "name": f"machine-{server}-{cards}",
        "cards": cards,
        "server": {"cards": server, "power": 1000.0},
        "levels": [
            {k: v for k, v in level.items() if k != "topology"} | {"size": size}
            for level, size in zip(raw["levels"], levels, strict=False)
        ],
        "collectives": [],
        "facility": {},
    }
    raw["card"] = {**raw["card"], "price": "1 USD/h"}
    raw["memory"] = {"hbm": raw["memory"]["hbm"]}
    return raw


def random_question(seed: int) -> Question:
    """A fleet of one or two pools of a few servers, with columns out of the air."""
    rng = np.random.default_rng(seed)
    pools = []
    for g in range(int(rng.integers(1, 3))):
        server, levels, cards = SHAPES[rng.integers(len(SHAPES))]
        price = float(rng.choice([0.5, 1.0, 1.7])) / 3600
        hardware = machine(server, levels, max(cards, levels[-1]))
        pools.append({"name": f"p{g}", "hardware": hardware, "cards": cards, "price": price})
    demands = [
        {"name": f"d{i}", "generate": 8, "rate": float(rng.uniform(0.5, 3.0)), "prompt": 64}
        for i in range(int(rng.integers(1, 3)))
    ]
    network = {"bandwidth": "50 GB/s", "latency": "5 us"}
    limits = {}
    for name, low, high in (
        ("cards", 2, 14),
        ("servers", 1, 6),
        ("money_per_hour", 2, 14),
        ("power", 1000, 6000),
        ("blast_radius", 0.3, 1.0),
    ):
        if rng.random() < 0.2:
            value = float(rng.uniform(low, high))
            limits[name] = int(value) if name in ("cards", "servers") else value
    survive = {k: 1 for k in ("server", "card") if rng.random() < 0.25}
    currency = str(rng.choice(["gpu_seconds", "money", "joules"]))
    problem = load_problem(
        {
            "model": "qwen3-0.6b",
            "fleet": {
                "pools": pools,
                "demands": demands,
                "survive": survive,
                "network": network if rng.random() < 0.5 else None,
            },
            "limits": limits,
            "objective": {"currency": currency},
        }
    )
    yards = tuple(Yard.of(problem, pool) for pool in problem.fleet.pools)
    columns = tuple(_columns(rng, yards, len(demands)))
    return Question(problem, columns, yards, cuts(problem, yards, columns))


def _columns(rng: np.random.Generator, yards: Sequence[Yard], demands: int) -> Iterator[Column]:
    """Few enough that all their numbers can be tried."""
    few = demands * len(yards) > 2
    apart = not few and rng.random() < 0.4
    for demand, pool in itertools.product(range(demands), range(len(yards))):
        for role in ["both", "prefill", "decode"] if apart else ["both"]:
            for cards in rng.choice([1, 2, 3, 4], size=1 if few or apart else 2, replace=False):
                if cards <= yards[pool].cards:
                    plan = PlanTable.from_columns({"tp": [int(cards)]})
                    serves = float(cards * rng.uniform(0.4, 1.0))
                    seconds = float(rng.uniform(0, 1)) + (0.5 if role == "decode" else 0.0)
                    yield Column(demand, pool, role, plan, serves, 1, seconds)


def random_burst(seed: int) -> Question:
    """One or two bursts on one or two pools, with times out of the air."""
    rng = np.random.default_rng(seed)
    pools = [
        {"name": f"p{g}", "hardware": machine(4, (4,), 4), "cards": int(rng.choice([4, 8]))}
        for g in range(int(rng.integers(1, 3)))
    ]
    demands = [
        {"name": f"d{i}", "generate": 8, "sessions": int(rng.integers(1, 8))}
        for i in range(int(rng.integers(1, 3)))
    ]
    problem = load_problem(
        {"model": "qwen3-0.6b", "fleet": {"pools": pools, "demands": demands}},
    )
    yards = tuple(Yard.of(problem, pool) for pool in problem.fleet.pools)
    columns = [
        Column(
            *(demand, pool, "both", PlanTable.from_columns({"tp": [cards]})),
            *(float(dealt), dealt, float(rng.uniform(0.5, 1.5) * dealt / cards**0.7)),
        )
        for demand in range(len(demands))
        for pool in range(len(pools))
        for cards in rng.choice([1, 2, 3, 4], size=1, replace=False).tolist()
        for dealt in (1, 2, 3)
        if dealt <= demands[demand]["sessions"]
    ]
    return Question(problem, tuple(columns), yards, cuts(problem, yards, columns))


def best_burst(question: Question) -> float | None:
    """Least card time of a burst by trying all numbers of instances."""
    columns = question.columns
    most = [question.yards[c.pool].cards // c.cards for c in columns]
    dealt = np.array(
        [[c.serves * (c.demand == d) for c in columns] for d in range(len(question.wanted))]
    )
    best = np.inf
    for counts in _counts(question, most):
        if not (dealt @ counts == question.wanted).all():
            continue
        cards = sum(c.cards * n for c, n in zip(columns, counts, strict=True))
        last = max(c.seconds for c, n in zip(columns, counts, strict=True) if n)
        if cards * last < best and all(
            placements(question, counts, g) for g in range(len(question.yards))
        ):
            best = cards * last
    return None if best == np.inf else float(best)


def _counts(question: Question, most: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all numbers of instances that deal no more sessions than there are, on the cards."""
    columns = question.columns

    def more(counts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        i = len(counts)
        if i == len(columns):
            yield counts
            return
        column = columns[i]
        own = [k for k in range(i) if columns[k].pool == column.pool]
        used = sum(columns[k].cards * counts[k] for k in own)
        alike = [k for k in range(i) if columns[k].demand == column.demand]
        given = sum(columns[k].serves * counts[k] for k in alike)
        for n in range(most[i] + 1):
            fits = used + n * column.cards <= question.yards[column.pool].cards
            if fits and given + n * column.serves <= question.wanted[column.demand]:
                yield from more((*counts, n))

    yield from more(())


def best_cost(question: Question) -> float | None:
    """Least cost per second by trying all numbers of instances, the cheapest first."""
    most = [
        question.yards[c.pool].cards // c.cards if c.role != "prefill" else 3
        for c in question.columns
    ]
    tried = np.array(list(itertools.product(*(range(m + 1) for m in most))), dtype=np.int64)
    tried = tried[_roughly(question, tried)]
    currency = question.problem.objective.currency
    if currency == "joules":
        costs = np.array([_fewest_servers(question, counts) * 1000.0 for counts in tried])
    else:
        price = [
            c.cards * (question.yards[c.pool].hardware.card.price if currency == "money" else 1.0)
            for c in question.columns
        ]
        costs = tried @ np.array(price, dtype=np.float64)
    for row in np.argsort(costs, kind="stable"):
        if np.isfinite(costs[row]) and works(question, tried[row]):
            return float(costs[row])
    return None


def _roughly(question: Question, tried: np.ndarray) -> np.ndarray:
    """Whether cards and what is served are enough, wherever instances stand."""
    columns, limits = question.columns, question.problem.limits
    cards = np.array([c.cards for c in columns])
    kept = np.ones(len(tried), dtype=bool)
    for pool, yard in enumerate(question.yards):
        own = np.array([c.pool == pool for c in columns])
        kept &= tried @ (cards * own) <= yard.cards
    if limits.cards is not None:
        kept &= tried @ cards <= limits.cards
    if limits.money_per_hour is not None:
        price = [question.yards[c.pool].hardware.card.price * 3600 for c in columns]
        kept &= tried @ (cards * np.array(price)) <= limits.money_per_hour * (1 + 1e-9)
    for demand, wanted in enumerate(question.wanted):
        serves = np.array([c.serves * (c.demand == demand) for c in columns])
        serves[[c.role == "prefill" for c in columns]] = 0.0
        kept &= tried @ serves >= wanted * (1 - 1e-6)
    return kept


def flow(question: Question, counts: Sequence[int], demand: int) -> float:
    """Sessions per second that flow from prompts to their ends, by a linear program."""
    columns = question.columns
    linked = partners(question.problem, question.yards, columns)
    own = [i for i, c in enumerate(columns) if c.demand == demand]
    total = sum(counts[i] * columns[i].serves for i in own if columns[i].role == "both")
    pairs = [(p, d) for p in own if columns[p].role == "prefill" for d in linked[p]]
    if pairs:
        ends = sorted({i for pair in pairs for i in pair})
        rows = np.array([[float(i in pair) for pair in pairs] for i in ends])
        room = [counts[i] * columns[i].serves for i in ends]
        found = linprog(-np.ones(len(pairs)), rows, room)
        total -= found.fun
    return total


def _enough(question: Question, counts: Sequence[int]) -> bool:
    return all(
        flow(question, counts, demand) >= wanted * (1 - 1e-6)
        for demand, wanted in enumerate(question.wanted)
    )


def _fewest_servers(question: Question, counts: Sequence[int]) -> float:
    """Fewest servers on which so many instances find room; inf if on none."""
    total = 0.0
    for pool in range(len(question.yards)):
        found = [len(placed) for placed in placements(question, counts, pool)]
        total += min(found, default=np.inf)
    return total


def works(question: Question, counts: Sequence[int]) -> bool:
    """Whether there is a placement that keeps all limits and survives what it must."""
    if not _enough(question, counts):
        return False
    limits = question.problem.limits
    ways = [placements(question, counts, g) for g in range(len(question.yards))]
    joules = question.problem.objective.currency == "joules"
    fewest = _fewest_servers(question, counts) if joules else np.inf
    for way in itertools.product(*ways):
        servers = sum(len(placed) for placed in way)
        most = limits.servers or np.inf
        if limits.power is not None:
            most = min(most, limits.power * (1 + 1e-9) // 1000)
        if servers <= min(most, fewest) and _survives(question, counts, way):
            return True
    return False


Held = tuple[frozenset[tuple[int, int]], ...]
"""What stands on each server in use; an instance is a pair of its column and its own number."""


def placements(question: Question, counts: Sequence[int], pool: int) -> tuple[Held, ...]:
    """Every way to put the instances of a pool on its cards."""
    yard, columns = question.yards[pool], question.columns
    own = sorted(question.of_pool(pool), key=lambda i: -columns[i].cards)
    wanted = tuple((i, columns[i].cards, int(counts[i])) for i in own)
    return _placed(yard.server, yard.blocks, yard.cards, wanted)


@cache
def _placed(
    server: int, blocks: tuple[int, ...], room: int, wanted: tuple[tuple[int, int, int], ...]
) -> tuple[Held, ...]:
    items = [(i, cards, k) for i, cards, count in wanted for k in range(count)]
    found: dict[Any, Held] = {}

    def put(index: int, taken: int, held: dict[int, frozenset[tuple[int, int]]], last: int) -> None:
        if index == len(items):
            key = tuple(sorted(tuple(sorted(i for i, _ in h)) for h in held.values()))
            found.setdefault(key, tuple(held.values()))
            return
        i, cards, k = items[index]
        for start, end in places(blocks, room, cards):
            mask = (1 << end) - (1 << start)
            # Equal instances may stand in order.
            if not mask & taken and (k == 0 or start > last):
                on = range(start // server, (end - 1) // server + 1)
                more = {s: held.get(s, frozenset()) | {(i, k)} for s in on}
                put(index + 1, taken | mask, {**held, **more}, start)

    put(0, 0, {}, -1)
    return tuple(found.values())


def places(blocks: Sequence[int], room: int, cards: int) -> Iterator[tuple[int, int]]:
    """First card of an instance and the first behind it, with the rest of blocks that it begins.

    It starts where a block starts that is smaller than itself, inside one that holds it.
    """
    inner = max((b for b in blocks if b < cards), default=1)
    block = min((b for b in blocks if b >= cards), default=room)
    wide = -(-cards // inner) * inner
    for start in range(0, room - wide + 1, inner):
        if start // block == (start + wide - 1) // block:
            yield start, start + wide


def _survives(question: Question, counts: Sequence[int], way: Sequence[Held]) -> bool:
    survive, limits = question.problem.fleet.survive, question.problem.limits
    blocks = [held for placed in way for held in placed]
    for held in blocks:
        left = list(counts)
        for i, _ in held:
            left[i] -= 1
        if survive.server and not _enough(question, left):
            return False
        if limits.blast_radius is not None and not _within(question, counts, left):
            return False
    if survive.card:
        for i, count in enumerate(counts):
            left = [n - (k == i) for k, n in enumerate(counts)]
            if count and not _enough(question, left):
                return False
    return True


def _within(question: Question, counts: Sequence[int], left: Sequence[int]) -> bool:
    """Whether no demand loses more of its sessions than allowed."""
    share = question.problem.limits.blast_radius
    for demand, wanted in enumerate(question.wanted):
        own = [
            (i, min(c.serves, wanted))
            for i, c in enumerate(question.columns)
            if c.demand == demand and c.role != "prefill"
        ]
        total = sum(counts[i] * s for i, s in own)
        lost = total - sum(left[i] * s for i, s in own)
        if lost > share * total * (1 + 1e-9):
            return False
    return True
