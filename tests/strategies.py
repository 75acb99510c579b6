"""Small random problems: models of a few layers, machines of a few cards, loads and spaces.

Sizes are small enough to check every plan by brute force, and odd enough to divide badly. Times
are balanced so that computing, reading and sending each decide some of the time.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from constraints.axes import domains
from constraints.space import Space, product_chunks
from costmodels.base import cost_model
from costmodels.plans import TIER_AXES, PlanTable
from specs.hardware import HardwareSpec
from specs.problem import Problem
from specs.space import AXES
from tests.stacks import KINDS, SMOOTH_KINDS, models

Raw = dict[str, Any]
Draw = Callable[..., Any]

LEVELS = [(4,), (8,), (16,), (2, 4), (4, 8), (4, 16), (8, 16), (3, 6), (2, 4, 8), (2, 4, 16)]
"""Sizes of nested domains."""

DTYPES = ("fp32", "bf16", "fp16", "fp8", "int8", "fp4", "int4")

NUMBERS = {
    "tp": [1, 2, 3, 4, 5, 7, 8, 12, 13, 16],
    "kv_split": [1, 2, 3, 4, 8],
    "pp": [1, 2, 3, 4, 5, 9],
    "cp": [1, 2, 3, 4],
    "attention_dp": [1, 2, 3, 4, 8],
    "attention_replicas": [1, 2, 4],
    "ep": [1, 2, 3, 4, 6, 8, 16],
    "expert_tp": [1, 2, 3, 4, 8, 16],
    "redundant_experts": [0, 1, 2, 3, 4],
    "replicas": [1, 2, 3, 4, 8],
    "batch": [1, 2, 3, 5, 8, 16],
    "microbatches": [1, 2, 3, 4, 7],
}
WORDS: dict[str, list[Any]] = {
    **{axis: ["hbm", "host", "pool", "rom"] for axis in TIER_AXES},
    "sp": [False, True],
    "allreduce": ["auto", "ring", "tree", "hierarchical", "recursive"],
    "alltoall": ["auto", "direct", "pairwise"],
}
RULES = [
    "ep == attention_dp",
    "tp <= 4",
    "tp * cp <= 8",
    "ep * expert_tp != 6",
    "replicas >= 2",
    "pp < 3",
    "microbatches > 1",
    "tp * kv_split * pp >= attention_dp",
]


def logarithmic(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers between two bounds, each order of magnitude as likely as the others."""
    return st.floats(np.log(low), np.log(high)).map(lambda x: float(np.exp(x)))


@st.composite
def memories(draw: Draw, cards: int) -> Raw:
    """Working memory, and at times others: slower ones on one port, one that cannot be written."""
    found: Raw = {
        "hbm": {
            "capacity": draw(logarithmic(4e5, 3e7)),
            "bandwidth": draw(logarithmic(1e11, 3e12)),
        }
    }
    if draw(st.booleans()):
        found["host"] = {
            "capacity": draw(logarithmic(1e6, 1e9)),
            "bandwidth": draw(logarithmic(1e10, 1e12)),
            "cards": draw(st.integers(1, cards)),
            "path": draw(st.none() | logarithmic(1e10, 1e11)),
            "latency": draw(logarithmic(1e-8, 1e-5)),
            "random_reads": draw(st.none() | logarithmic(1e7, 1e10)),
            "port": draw(st.sampled_from([None, "pcie"])),
        }
        found["pool"] = {
            **found["host"],
            "in_flight": draw(st.integers(1, 10_000)),
            "transaction": 256,
            "cards": cards,
        }
    if draw(st.booleans()):
        capacity, bandwidth = draw(logarithmic(1e6, 1e8)), draw(logarithmic(1e12, 1e13))
        found["rom"] = {"capacity": capacity, "bandwidth": bandwidth, "writable": False}
    return found


@st.composite
def machines(draw: Draw) -> Raw:
    sizes = draw(st.sampled_from(LEVELS))
    server = draw(st.sampled_from([s for s in sizes if s > 1]))
    cards = server * draw(st.integers(1, max(1, 16 // server)))
    peak = draw(logarithmic(3e11, 3e13))
    servers = cards // server
    units = [n for n in range(1, servers + 1) if servers % n == 0]
    return {
        "name": "machine",
        "cards": cards,
        "card": {"peak": dict.fromkeys(DTYPES, peak), "price": 0.001},
        "memory": draw(memories(cards)),
        "server": {"cards": server, "power": 1e3 * server},
        "facility": {
            "unit": draw(st.sampled_from(units)),
            "power": draw(st.sampled_from([0, 700])),
            "switch_ports": draw(st.sampled_from([None, server, 2 * server])),
            "second_tier_power": 900,
            "rack": {
                "servers": draw(st.integers(1, 3)),
                "power": draw(st.sampled_from([None, 2.5e3 * server])),
            },
        },
        "failure_domains": [{"name": "feed", "cards": draw(st.integers(1, 2 * cards))}],
        "levels": [
            {
                "name": f"level {i}",
                "size": size,
                "bandwidth": draw(logarithmic(1e9, 4e11)),
                "latency": draw(logarithmic(1e-8, 1e-6)) * (i + 1),
            }
            for i, size in enumerate(sizes)
        ],
    }


def limits_of_time() -> st.SearchStrategy[float | None]:
    return st.one_of(st.none(), logarithmic(3e-6, 3e-2))


@st.composite
def classes(draw: Draw, prompts: bool = True) -> Raw:
    return {
        "context": draw(st.integers(0, 2000)),
        "prompt": draw(st.sampled_from([0, 1, 64, 700])) if prompts else 0,
        "generate": draw(st.integers(1, 40)),
        "deadline": draw(limits_of_time()),
        "ttft": draw(limits_of_time()),
        "tpot": draw(limits_of_time()),
    }


@st.composite
def bursts(draw: Draw, cards: int = 1) -> Raw:
    """Bursts; failures hit any of the first ``cards`` cards."""
    found = draw(st.lists(classes(), min_size=1, max_size=3))
    for i, one in enumerate(found):
        one |= {"name": f"class {i}", "sessions": draw(st.integers(1, 6))}
    failure = st.fixed_dictionaries(
        {
            "card": st.integers(0, cards - 1),
            "domain": st.sampled_from(["card", "server"]),
            "at": logarithmic(1e-6, 1e-3),
            "stall": logarithmic(1e-6, 1e-3),
        }
    )
    return {
        "kind": "burst",
        "serving": draw(st.sampled_from(["one_at_a_time", "continuous_batching"])),
        "on_time_share": draw(st.sampled_from([0.25, 0.5, 0.75, 1.0])),
        "classes": found,
        "failures": draw(st.lists(failure, max_size=2)),
    }


@st.composite
def steady_loads(draw: Draw, most_classes: int = 3) -> Raw:
    found = draw(st.lists(classes(), min_size=1, max_size=most_classes))
    for i, one in enumerate(found):
        one["name"] = f"class {i}"
        one["share"] = {1: [1.0], 2: [0.25, 0.75], 3: [0.5, 0.25, 0.25]}[len(found)][i]
    return {"kind": "steady", "on_time_share": 1.0, "classes": found}


@st.composite
def spaces(draw: Draw, most_axes: int = 6) -> Raw:
    """Values for several axes, ``open`` for at most one, and a rule between axes at times."""
    names = st.sampled_from(sorted([*NUMBERS, *WORDS]))
    chosen = draw(st.lists(names, min_size=1, max_size=most_axes, unique=True))
    values: Raw = {}
    for axis in chosen:
        known = NUMBERS.get(axis) or WORDS[axis]
        some = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True))
        # The least value mostly leads to a plan; without it, little would be possible.
        least = known[:1] if draw(st.integers(0, 3)) else []
        values[axis] = list(dict.fromkeys((*some, *least)))
    if draw(st.integers(0, 3)) == 0:
        values[draw(names)] = "open"
    if draw(st.integers(0, 3)) == 0:
        values["where"] = [draw(st.sampled_from(RULES))]
    return values


@st.composite
def assumptions(draw: Draw) -> Raw:
    words = {
        "billing": ["used", "allocated"],
        "overlap": ["per_operator", "whole_step", "added"],
        "activations": ["estimated", "in_workspace"],
        "capacity": ["per_card", "pooled"],
        "routing": [
            "uniform_without_replacement",
            "uniform_with_replacement",
            "balanced",
            "concentrated",
            "concentrated_spread",
            {"kind": "skew", "factor": 1.5},
        ],
        "expert_split": ["whole", "whole", "fractional"],
        "read_shards": ["exact", "exact", "even", "pooled"],
        "compressor_state": ["counted", "in_workspace"],
        "prefill_reads": ["once", "per_token"],
        "prefill_context": ["triangle", "triangle", "middle"],
        "count_norms": [True, False],
        "count_modules": [True, True, False],
        "count_embedding_rows": [True, True, False],
        "engram_reads": ["counted", "counted", "hidden"],
        "engram_projection": ["whole", "whole", "with_table"],
        "balance": [1.0, 1.0, 0.9],
        "alltoall_levels": ["added", "overlapped", "outermost"],
        "a2a_dedup": ["none", "card"],
        "cp_layout": ["zigzag", "contiguous"],
        "steady_context": ["mean", "start"],
        "reduce_dtype": [None, "fp32"],
        "dispatch_dtype": [None, "fp8"],
        "workspace": [0, 100_000],
        "overhead": [0, 2e-6],
    }
    found = {name: draw(st.sampled_from(choices)) for name, choices in words.items()}
    # Most machines are as stated, so that what the equations say decides most of the time.
    if draw(st.integers(0, 2)) == 0:
        found |= draw(achieved())
    return found


@st.composite
def achieved(draw: Draw) -> Raw:
    """Shares of peaks that passes reach, and times that no peak explains, by phase."""
    shares = st.sampled_from([1.0, 0.8, 0.25])
    efficiency, overheads = {}, {}
    for phase in ("decode", "prefill"):
        efficiency[phase] = {
            "memory": draw(shares),
            "experts_memory": draw(st.none() | shares),
            "context_memory": draw(st.none() | shares),
            "network": draw(shares),
            "alltoall": draw(st.none() | shares),
            "network_across": draw(st.none() | shares),
            "alltoall_across": draw(st.none() | shares),
        }
        longest = {
            "step": 1e-5,
            "sequence": 1e-6,
            "layer": 1e-6,
            "moe_layer": 1e-6,
            "token_layer": 1e-8,
        }
        overheads[phase] = {n: draw(st.sampled_from([0.0, s])) for n, s in longest.items()}
    return {
        "efficiency": efficiency,
        "overheads": overheads,
        "layer_launch": draw(st.sampled_from([0.0, 5e-7])),
        "start_up": {
            **{name: draw(st.sampled_from([1.0, 3.0])) for name in ("reduce", "alltoall")},
            **{
                name: draw(st.sampled_from([None, 1.0, 2.0]))
                for name in ("reduce_across", "alltoall_across")
            },
        },
    }


@st.composite
def problems(
    draw: Draw,
    kind: str | None = None,
    moe: bool | None = None,
    smooth: bool = False,
    most_candidates: int = 3000,
    space: st.SearchStrategy[Raw] | None = None,
    workload: st.SearchStrategy[Raw] | None = None,
    limits: bool = True,
) -> Problem:
    """Whole problems whose candidates are few enough to look at one by one.

    ``smooth``: the time of a step is linear in the context but for bends, so sums of steps are
    exact; others grow in jumps and are summed nearly.
    """
    hardware = draw(machines())
    cards = hardware["cards"]
    chosen = kind or draw(st.sampled_from(["burst", "steady"]))
    load = workload or (bursts(cards) if chosen == "burst" else steady_loads())
    most: Raw = {}
    if limits:
        power, price = hardware["server"]["power"], hardware["card"]["price"]
        most["cards"] = draw(st.sampled_from([None, cards, max(1, cards // 2), max(1, cards - 3)]))
        most["servers"] = draw(st.sampled_from([None, None, None, 1, 2]))
        most["power"] = draw(st.sampled_from([None, None, None, power, 2.5 * power]))
        most["racks"] = draw(st.sampled_from([None, None, None, 1, 2]))
        most["blast_radius"] = draw(st.sampled_from([None, None, None, None, 0.4, 0.5]))
        most["money_per_hour"] = draw(st.sampled_from([None] * 5 + [3600 * price * cards / 2]))
    problem = Problem.model_validate(
        {
            "model": draw(models(moe, SMOOTH_KINDS if smooth else KINDS)),
            "hardware": hardware,
            "workload": draw(load),
            "limits": most,
            "space": draw(space if space is not None else spaces()),
            "assumptions": draw(assumptions()),
        }
    )
    assume(not (smooth and problem.model.stepped))
    assume(prod(len(values) for values in domains(problem).values()) <= most_candidates)
    return problem


def space_of(problem: Problem) -> Space:
    return Space(problem, cost_model("roofline"))


def possible_plans(problem: Problem) -> PlanTable:
    """All plans that the structural constraints allow, without the solver."""
    space = space_of(problem)
    tables = []
    for plans, _ in product_chunks(problem, space.domains, 10**9):
        kept = np.ones(len(plans), dtype=bool)
        for constraint in space.structural:
            kept &= constraint.allowed(space.case(plans))
        tables.append(plans.take(kept))
    return PlanTable.concatenate(tables)


@st.composite
def planned(draw: Draw, most: int = 8, **options: Any) -> tuple[Problem, PlanTable]:
    """A problem with some of its possible plans, at least one."""
    problem = draw(problems(**options))
    plans = possible_plans(problem)
    assume(len(plans))
    rows = st.lists(st.integers(0, len(plans) - 1), min_size=1, max_size=most, unique=True)
    return problem, plans.take(np.array(draw(rows)))


def changed(problem: Problem, **parts: Any) -> Problem:
    """The problem with parts put in place of its own, e.g. ``assumptions={"overhead": 0}``."""
    raw = problem.model_dump(exclude_unset=True)
    for name, values in parts.items():
        raw[name] = {**raw.get(name, {}), **values} if isinstance(values, dict) else values
    return Problem.model_validate(raw)


def placement(hardware: HardwareSpec, cards: int, limit: int) -> list[int]:
    """First card of every instance of ``cards`` cards that finds room below ``limit``.

    An instance that fits into a domain of a level does not straddle two of them; a wider one
    starts where a domain starts. One that is wider than the outermost level finds no room.
    """
    starts, here = list[int](), 0
    if cards > hardware.levels[-1].size:
        return starts
    while here + cards <= limit:
        if all(_sits(here, cards, level.size) for level in hardware.levels):
            starts.append(here)
            here += cards
        else:
            here += 1
    return starts


def _sits(start: int, cards: int, size: int) -> bool:
    if cards <= size:
        return start // size == (start + cards - 1) // size
    return start % size == 0


def problem_of(
    *, cards: int, workload: Raw | None = None, ffn: Raw | None = None, **hardware: Any
) -> Problem:
    """One small problem without surprises: a dense model, or ``ffn``, on one domain of cards."""
    attention = {"q_heads": 4, "kv_heads": 4, "head_dim": 32}
    dense = {"kind": "dense", "intermediate": 96}
    level = {"name": "domain", "size": cards, "bandwidth": 4e11, "latency": 1e-9}
    return Problem.model_validate(
        {
            "model": {
                "name": "small",
                "hidden": 64,
                "vocab": 512,
                "max_context": 2**17,
                "layers": [{"count": 2, "attention": attention, "ffn": ffn or dense}],
            },
            "hardware": {
                "name": "machine",
                "cards": cards,
                "card": {"peak": dict.fromkeys(DTYPES, 1e15), "price": 0.001},
                "memory": {"hbm": {"capacity": 1e9, "bandwidth": 1e11}},
                "server": {"cards": cards, "power": 1e3},
                "levels": [level],
                **hardware,
            },
            "workload": workload
            or {"kind": "steady", "classes": [{"name": "only", "context": 100, "generate": 10}]},
            "assumptions": {"workspace": 0, "activations": "in_workspace"},
        }
    )


def rows_of(plans: PlanTable, axes: Sequence[str] = tuple(AXES)) -> set[tuple[int, ...]]:
    """Plans as a set of tuples of numbers."""
    return set(zip(*(plans.column(axis).tolist() for axis in axes), strict=True))
