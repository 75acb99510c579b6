"""The measurements. Each returns one number in the unit that its name ends with."""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from constraints.space import Space
from costmodels.base import cost_model
from costmodels.plans import TIER_AXES, PlanTable
from costmodels.roofline import RooflineModel
from specs.load import load_problem
from specs.problem import Problem

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "qwen3-32b-128k-hgx-h100.yaml"
DENSE = EXAMPLE
HYBRID = Path(__file__).parent / "hybrid-five-kinds.yaml"
MOE = ROOT / "examples" / "qwen3-235b-a22b-8k-hgx-h100.yaml"

SUPERNODES = ROOT / "examples" / "supernode-sizing.yaml"

CHUNK = 16_384
"""Rows of one call, as searches make them: columns of this length stay in the cache."""

# Degrees that the structural rules allow on the eight cards of the two examples, so that the
# rows timed are rows that a search would price.
_OPEN_DENSE = ("space.tp=open", "space.pp=open", "space.cp=open", "space.sp=open")
_OPEN_MOE = (*_OPEN_DENSE, "space.kv_split=open", "space.attention_dp=open", "space.expert_tp=open")


_OPEN_SERVING = (
    "space.replicas=open",
    "space.microbatches=open",
    "space.allreduce=open",
    "space.alltoall=open",
)


ENGINE = ("engine=vllm", "assumptions.activations=estimated")
"""Served by an engine that the shipped calibration covers on the cards of the examples."""


def opened(spec: Path, more: tuple[str, ...] = ()) -> Problem:
    """Return the problem of ``spec`` with its main axes opened to all that divides."""
    moe = load_problem(spec).model.is_moe
    return load_problem(spec, [*(_OPEN_MOE if moe else _OPEN_DENSE), *more])


def cold_rank_s(runs: int) -> float:
    """Median time of ``planner rank`` on the example, each run in a new process."""
    command = "from planner.cli import main; main()"
    words = [sys.executable, "-c", command, "rank", str(EXAMPLE)]
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(words, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def decode_points_per_s(
    spec: Path, seconds: float, name: str = "roofline", more: tuple[str, ...] = ()
) -> float:
    """Rate of (plan, batch) points through ``decode`` of a cost model in chunks."""
    problem, model = opened(spec, more), cost_model(name)
    plans, batch = _chunk(Space(problem, RooflineModel()).plans())
    context = np.full(CHUNK, float(problem.workload.classes[0].context))
    calls = _calls_per_s(lambda: model.decode(problem, plans, batch, context).seconds, seconds)
    return calls * CHUNK


def _chunk(plans: PlanTable) -> tuple[PlanTable, "np.typing.NDArray[np.int64]"]:
    """Repeat the plans with growing batches until one chunk is full."""
    rows = np.arange(CHUNK)
    return plans.take(rows % len(plans)), 1 + rows // len(plans) % 256


def feasible_plans_per_s(spec: Path, seconds: float) -> tuple[int, float]:
    """Plans in the structural set of an opened space, and how many are built a second."""
    problem = opened(spec, _OPEN_SERVING)
    count = len(Space(problem, RooflineModel()).plans())
    return count, count * _calls_per_s(lambda: Space(problem, RooflineModel()).plans(), seconds)


def placements_s() -> tuple[int, float]:
    """Plans of 256 cards with every placement and domain open, and seconds to build their set."""
    axes = ("domain", *TIER_AXES)
    problem = load_problem(SUPERNODES, [f"space={{{', '.join(f'{a}: open' for a in axes)}}}"])
    start = time.perf_counter()
    count = len(Space(problem, RooflineModel()).plans())
    return count, time.perf_counter() - start


def _calls_per_s(call: Callable[[], object], seconds: float) -> float:
    """Call until ``seconds`` have passed, after one call that warms the caches."""
    call()
    done, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds or done == 0:
        call()
        done += 1
    return done / spent


def peak_memory_mb() -> tuple[float, float]:
    """Largest resident size of this process, and of any run of the command, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    own, child = (resource.getrusage(w).ru_maxrss * unit / 1e6 for w in who)
    return own, child


def one_core() -> None:
    """Keep this process and its children on one core, where the system lets us choose."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
