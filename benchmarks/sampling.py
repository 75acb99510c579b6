"""``python -m benchmarks.sampling``: what sampling misses of the optimum, by trials.

A space of 106,392 plans is priced whole, so the optimum is known. Then each sampler searches it
with several seeds. *Regret* is what the best plan so far costs more than the optimum, as a share.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from costmodels.plans import FloatArray
from searches.evaluate import space_of
from searches.executors import LocalExecutor
from searches.exhaustive import explore
from searches.sampling.search import sample
from searches.sampling.trials import Sampled, Tried
from specs.load import load_problem
from specs.problem import Problem

SPEC = Path(__file__).parent / "large-space.yaml"
RESULTS = Path(__file__).parent / "sampling.json"
PICTURE = Path(__file__).parents[1] / "docs" / "sampling.svg"

BATCHES = 13
SAMPLERS = ("tpe", "nsga2", "random")
SEEDS = 10
TRIALS = 500
COUNTS = (50, 100, 200, 300, 500)
"""Trials after which regret is told."""

COARSE = (1, 4, 13)
"""Batches of the coarser space whose best plans a warm start tries first."""


@dataclass(frozen=True)
class Curve:
    """Regret of one sampler: ``regret`` has a row a seed, a column for each of ``COUNTS``."""

    sampler: str
    seconds: float
    regret: list[list[float]]

    @property
    def median(self) -> list[float]:
        """Median over the seeds after each of ``COUNTS``."""
        return [float(m) for m in np.median(np.array(self.regret), axis=0)]


def problem(sets: Sequence[str] = (), batches: Sequence[int] = range(1, BATCHES + 1)) -> Problem:
    """Return the problem with so many batches."""
    return load_problem(SPEC, [f"space.batch={list(batches)}", *sets])


def optimum(asked: Problem) -> tuple[int, float]:
    """Price a space whole; return its plans and the least cost."""
    found = explore(space_of(asked), LocalExecutor())
    return found.digest.counts.estimated, float(found.evaluated.outcomes.cost[found.ranked[0]])


def coarse_best(count: int = 10) -> list[Tried]:
    """Return the best plans of the coarser space."""
    found = explore(space_of(problem(batches=COARSE)), LocalExecutor())
    return [found.evaluated.plans.row(int(row)) for row in found.ranked[:count]]


def regret(found: Sampled, least: float) -> FloatArray:
    """Return the regret after each trial, shape ``(trials,)``; inf before the first feasible."""
    costs = [t.values[0] if t.values and t.state == "feasible" else np.inf for t in found.trials]
    curve: FloatArray = np.minimum.accumulate(costs) / least - 1
    return curve


def curve(
    sampler: str, seeds: int, trials: int, least: float, name: str = "", first: Sequence[Tried] = ()
) -> Curve:
    """Search with each seed; a search that ends early has found all that it will."""
    rows, begun = [], time.process_time()
    for seed in range(seeds):
        sets = [
            f"search.{k}={v}"
            for k, v in {
                "method": "optuna",
                "sampler": sampler,
                "seed": seed,
                "trials": trials,
            }.items()
        ]
        found = sample(problem(sets), LocalExecutor(), first=first)
        missed = regret(found, least)
        rows.append([float(missed[min(count, len(missed)) - 1]) for count in COUNTS])
    return Curve(name or sampler, (time.process_time() - begun) / seeds, rows)


def draw(curves: list[Curve], file: Path) -> None:
    """Draw the median regret by trials, with the spread of the seeds."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for each in curves:
        rows = 100 * np.array(each.regret)
        (line,) = axes.plot(COUNTS, np.median(rows, axis=0), "o-", label=each.sampler)
        low, high = np.quantile(rows, [0.25, 0.75], axis=0)
        axes.fill_between(COUNTS, low, high, color=line.get_color(), alpha=0.12)
    axes.axhline(2, color="grey", linestyle="--", linewidth=0.8)
    axes.set_yscale("symlog", linthresh=1)
    axes.set(xlabel="trials", ylabel="regret, %", title="Median and quartiles of the seeds")
    axes.set_ylim(0, None)
    axes.legend(frameon=False, ncol=2)
    axes.grid(alpha=0.3)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """Print the table, a row as soon as it is measured, and draw the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampling", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="searches of each sampler")
    parser.add_argument("--keep", action="store_true", help="write the results and the picture")
    options = parser.parse_args()
    begun = time.process_time()
    plans, least = optimum(problem())
    exhaustive = time.process_time() - begun
    print(f"{plans:,} plans priced whole in {exhaustive:.1f} s")
    print(f"{'median regret, %, after':<24}" + "".join(f"{c:>8}" for c in COUNTS) + "  worst  s")
    curves = []
    runs = [(s, "", ()) for s in SAMPLERS] + [("tpe", "tpe, warm start", coarse_best())]
    for sampler, name, first in runs:
        found = curve(sampler, options.seeds, TRIALS, least, name, first)
        curves.append(found)
        worst = max(row[-1] for row in found.regret)
        cells = "".join(f"{100 * m:>8.2f}" for m in found.median)
        print(f"{found.sampler:<24}{cells}  {100 * worst:.2f}  {found.seconds:.1f}", flush=True)
    if options.keep:
        content = {
            "plans": plans,
            "exhaustive_s": exhaustive,
            "curves": [asdict(c) for c in curves],
        }
        RESULTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        draw(curves, PICTURE)


if __name__ == "__main__":
    main()
