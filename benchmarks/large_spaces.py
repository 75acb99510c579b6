"""``python -m benchmarks.large_spaces``: time and memory of searches of 10⁴ to 10⁷ plans.

Each search is ``planner rank`` in a new process, so start-up, the funnel and the report count. The
spaces differ only in how many batches are tried, so a plan costs the same in all of them.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import psutil

SPEC = Path(__file__).parent / "large-space.yaml"
RESULTS = Path(__file__).parent / "large-spaces.json"
PICTURE = Path(__file__).parents[1] / "docs" / "large-spaces.svg"

BATCHES = (1, 6, 61, 611)
"""Batches tried: 10⁴, 10⁵, 10⁶ and 10⁷ plans, nearly."""

_TWICE = "space.alltoall=[direct, pairwise]"
"""Two ways to exchange: so much larger than the space of the file."""

_SAMPLED_S = 0.2


@dataclass(frozen=True)
class Run:
    """One search: wall time, and the most memory that its processes held together."""

    plans: int
    feasible: int
    seconds: float
    peak_bytes: int
    best: float

    @property
    def plans_per_s(self) -> float:
        """Plans ranked a second, start-up included."""
        return self.plans / self.seconds


def run(batches: int, executor: str) -> Run:
    """Search the space of so many batches."""
    tried = f"space.batch={list(range(1, batches + 1))}"
    words = [
        "rank",
        str(SPEC),
        "--set",
        tried,
        "--set",
        _TWICE,
        "--executor",
        executor,
        "--store",
        "none",
        "--json",
    ]
    command = [sys.executable, "-c", "from planner.cli import main; main()", *words]
    start = time.perf_counter()
    # A file, because a pipe that nobody reads meanwhile would fill.
    with TemporaryFile() as answer:
        with subprocess.Popen(command, stdout=answer) as process:
            peak = _watched(process.pid)
        answer.seek(0)
        document = json.load(answer)
    certificate = document["certificate"]
    return Run(
        plans=certificate["evaluated"],
        feasible=certificate["feasible"],
        seconds=time.perf_counter() - start,
        peak_bytes=peak,
        best=document["plans"][0]["outcome"]["cost_per_on_time_session"],
    )


def _watched(pid: int) -> int:
    """Return the most bytes that a process and its children held together, until it ends."""
    peak = 0
    family = psutil.Process(pid)
    while family.is_running() and family.status() != psutil.STATUS_ZOMBIE:
        held = 0
        for member in (family, *family.children(recursive=True)):
            try:
                held += member.memory_full_info().pss
            except psutil.Error:
                continue  # It has just ended.
        peak = max(peak, held)
        time.sleep(_SAMPLED_S)
    return peak


def slope(runs: list[Run]) -> float:
    """Exponent of time over plans, start-up taken off: 1 where time grows linearly."""
    seconds = np.array([r.seconds for r in runs]) - runs[0].seconds
    plans = np.array([r.plans for r in runs]) - runs[0].plans
    return float(np.polyfit(np.log(plans[1:]), np.log(seconds[1:]), 1)[0])


def draw(runs: list[Run], executor: str, file: Path) -> None:
    """Draw time and memory against plans."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plans = [r.plans for r in runs]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.loglog(plans, [r.seconds for r in runs], "o-", label=executor)
    rate = (runs[-1].seconds - runs[0].seconds) / (plans[-1] - plans[0])
    left.loglog(plans, [rate * p for p in plans], "--", color="grey", label="linear")
    left.set(xlabel="plans", ylabel="seconds", title="Time of planner rank")
    left.legend(frameon=False)
    right.semilogx(plans, [r.peak_bytes / 1e9 for r in runs], "s-", color="tab:orange")
    right.set(xlabel="plans", ylabel="GB", title="Memory of all its processes", ylim=(0, None))
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """Print the table, a row as soon as it is measured, and draw the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_spaces", description=__doc__)
    parser.add_argument("--executor", default="processes:2", help="where to compute")
    parser.add_argument("--sizes", type=int, default=len(BATCHES), help="how many of the spaces")
    parser.add_argument("--keep", action="store_true", help="write the results and the picture")
    options = parser.parse_args()
    runs = []
    print(f"{'plans':>12} {'feasible':>12} {'seconds':>9} {'plans/s':>10} {'memory, GB':>11}")
    for batches in BATCHES[: options.sizes]:
        found = run(batches, options.executor)
        runs.append(found)
        print(
            f"{found.plans:>12,} {found.feasible:>12,} {found.seconds:>9.1f} "
            f"{found.plans_per_s:>10,.0f} {found.peak_bytes / 1e9:>11.2f}",
            flush=True,
        )
    if len(runs) > 2:
        print(f"time grows with plans to the power {slope(runs):.2f}")
    if options.keep:
        content = {"executor": options.executor, "runs": [asdict(r) for r in runs]}
        RESULTS.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        draw(runs, options.executor, PICTURE)


if __name__ == "__main__":
    main()
