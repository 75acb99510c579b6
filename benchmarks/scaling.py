"""``python -m benchmarks.scaling [--rounds N] [--batches N] [--save]``: what a Ray cluster brings.

Two things are measured on this machine: the time of one search with one worker and with two, on
separate Ray nodes, in turns, so that what else the machine does meets both; and what tasks, answers
and merging cost, from which ``benchmarks.scaling_model`` estimates large clusters.
"""

import argparse
import json
import logging
import operator
import os
import pickle
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.scaling_model import Costs
from results.store import Store
from searches.digest import Digest
from searches.evaluate import space_of
from searches.executors import RayExecutor
from searches.exhaustive import CHUNK_ROWS, digest_span, search
from specs.load import load_problem
from specs.problem import Problem

SPEC = Path(__file__).parent / "large-space.yaml"
RESULTS = Path(__file__).parent / "scaling.json"

EMPTY_TASKS = 2000
IN_FLIGHT = 2000


def problem_of(batches: int) -> Problem:
    """Return the space of so many batches."""
    return load_problem(SPEC, [f"space.batch={list(range(1, batches + 1))}"])


def timed(work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how many seconds something takes, by the wall clock or that of this process."""
    begin = clock()
    work()
    return clock() - begin


def least(work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the least of the seconds that something takes: other work only ever adds to them."""
    return min(timed(work, clock) for _ in range(5))


def machine() -> float:
    """Return how much more two processes that only count get done than one: 2 if it is quiet."""
    counting = "import time; t = time.time(); n = 0\nwhile time.time() < t + 8: n += 1\nprint(n)"
    done = []
    for processes in (1, 2):
        words = [sys.executable, "-c", counting]
        running = [
            subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(processes)
        ]
        done.append(sum(int(process.communicate()[0]) for process in running))
    return done[1] / done[0]


def speed_up(ray: Any, executor: RayExecutor, problem: Problem, rounds: int) -> dict[str, Any]:
    """Search with one of two workers held, and with both, in turns.

    The cluster is joined, and both workers have loaded the code: what that takes is a cost of its
    own, and nodes that come and go would be busy with themselves.
    """

    def doze() -> None:
        # A long sleep would not notice that it is cancelled.
        while True:
            time.sleep(0.1)

    nap = ray.remote(doze)
    space = space_of(problem)
    list(executor.run(digest_span, space, [(0, CHUNK_ROWS)] * 4))
    one, two = [], []
    for _ in range(rounds):
        held = nap.remote()
        while ray.available_resources().get("CPU", 0) > 1:
            time.sleep(0.1)
        one.append(timed(lambda: search(problem, executor)))
        # Without force its process stays, with the code that it has loaded.
        ray.cancel(held)
        ray.wait([held])
        two.append(timed(lambda: search(problem, executor)))
        print(f"one {one[-1]:.1f} s, two {two[-1]:.1f} s", flush=True)
    ratios = [a / b for a, b in zip(one, two, strict=True)]
    return {"one_s": one, "two_s": two, "ratio": statistics.median(ratios)}


def costs(ray: Any, executor: RayExecutor, problem: Problem, start_s: float) -> Costs:
    """Measure what the parts of a search on a cluster cost; ``start_s`` is that of joining."""
    space = space_of(problem)
    spans = [(start, start + CHUNK_ROWS) for start in range(0, 9 * CHUNK_ROWS, CHUNK_ROWS)]
    parts = [digest_span(space, span) for span in spans]
    answer = pickle.dumps(parts[4])
    list(executor.run(operator.add, 0, range(10)))
    # Next to nothing: what is left is the cost of a task.
    empty_s = least(lambda: list(executor.run(operator.add, 0, range(EMPTY_TASKS))))
    fetched = ray.put(answer)
    fetch_s = least(lambda: pickle.loads(ray.get(fetched)), time.process_time)
    return Costs(
        start_s=start_s,
        task_s=least(lambda: digest_span(space, spans[4]), time.process_time),
        hand_out_s=empty_s / EMPTY_TASKS,
        look_s=look(ray),
        answer_bytes=len(answer),
        fetch_s=fetch_s,
        keep_s=keep(problem, parts),
        merge_s=least(lambda: Digest.merge(space, parts), time.process_time) / len(parts),
    )


def look(ray: Any) -> float:
    """Seconds to look for an answer, for every task in flight."""
    nap = ray.remote(lambda: time.sleep(1000))
    pending = [nap.remote() for _ in range(IN_FLIGHT)]
    seconds = least(lambda: ray.wait([ray.put(0), *pending], num_returns=1))
    for left in pending:
        ray.cancel(left, force=True)
    return seconds / IN_FLIGHT


def keep(problem: Problem, parts: list[Digest]) -> float:
    """Seconds to keep a digest in a SQLite file."""
    inputs = {"source": "inline", "sets": [], "command": "rank"}
    with TemporaryDirectory() as folder:
        store = Store.open(str(Path(folder) / "store.db"))
        with store.study(problem, inputs) as study:
            rounds = iter(range(0, 5 * len(parts), len(parts)))
            return least(lambda: _store(study, parts, next(rounds))) / len(parts)


def _store(study: Any, parts: list[Digest], first: int) -> None:
    for index, part in enumerate(parts, start=first):
        study.store(index, part)


def main() -> None:
    """Measure, print, and with ``--save`` write what the page of the manual is made from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="pairs of searches")
    parser.add_argument("--batches", type=int, default=400, help="8,184 plans each")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_MODE"] = "disabled"
    # Ray makes its workers yield to other work of the machine, which would not meet both alike.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # One thread of linear algebra here, as in the workers.
    os.environ["OMP_NUM_THREADS"] = "1"
    import ray
    from ray.cluster_utils import Cluster

    problem = problem_of(options.batches)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    executor = RayExecutor(cluster.address)
    try:
        space = space_of(problem)
        start_s = timed(lambda: list(executor.run(digest_span, space, [(0, 1)])))
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        found = {
            "plans": len(space.grid),
            "processors": os.cpu_count(),
            "load_before": os.getloadavg()[0],
            "two_that_count": machine(),
            "speed_up": speed_up(ray, executor, problem, options.rounds),
            "costs": asdict(costs(ray, executor, problem, start_s)),
        }
    finally:
        ray.shutdown()
        cluster.shutdown()
    print(json.dumps(found, indent=2))
    if options.save:
        RESULTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
