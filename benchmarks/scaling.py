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


def timed(work: Callable[[], Any]) -> float:
    """Return how many seconds something takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def median_of(work: Callable[[], Any], times: int = 5) -> float:
    """Return the median of the seconds that something takes."""
    return statistics.median(timed(work) for _ in range(times))


def speed_up(cluster: Any, problem: Problem, rounds: int) -> dict[str, Any]:
    """Search with one node and with two, in turns; each node has one processor."""
    one, two = [], []
    for _ in range(rounds):
        one.append(timed(lambda: search(problem, RayExecutor(cluster.address))))
        node = cluster.add_node(num_cpus=1)
        two.append(timed(lambda: search(problem, RayExecutor(cluster.address))))
        cluster.remove_node(node)
        print(
            f"one {one[-1]:.1f} s, two {two[-1]:.1f} s: {one[-1] / two[-1]:.2f} times", flush=True
        )
    ratios = [a / b for a, b in zip(one, two, strict=True)]
    return {"one_s": one, "two_s": two, "ratio": statistics.median(ratios)}


def costs(cluster: Any, problem: Problem) -> Costs:
    """Measure what the parts of a search on a cluster cost."""
    space = space_of(problem)
    spans = [(start, start + CHUNK_ROWS) for start in range(0, 9 * CHUNK_ROWS, CHUNK_ROWS)]
    digest_span(space, (0, 1000))
    chunk_s = [timed(lambda span=span: digest_span(space, span)) for span in spans[:3]]
    parts = [digest_span(space, span) for span in spans]
    answer = pickle.dumps(parts[0])

    executor = RayExecutor(cluster.address)
    start_s = timed(lambda: list(executor.run(digest_span, space, [(0, 1)])))

    import ray

    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    list(executor.run(operator.add, 0, range(10)))
    # Next to nothing: what is left is the cost of a task.
    empty_s = timed(lambda: list(executor.run(operator.add, 0, range(EMPTY_TASKS))))
    fetched = ray.put(answer)
    fetch_s = median_of(lambda: pickle.loads(ray.get(fetched)))
    look_s = look(ray)
    ray.shutdown()
    return Costs(
        start_s=start_s,
        task_s=statistics.median(chunk_s),
        hand_out_s=empty_s / EMPTY_TASKS,
        look_s=look_s,
        answer_bytes=len(answer),
        fetch_s=fetch_s,
        keep_s=keep(problem, parts),
        merge_s=timed(lambda: Digest.merge(space, parts)) / len(parts),
    )


def look(ray: Any) -> float:
    """Seconds to look for an answer, for every task in flight."""
    pending = [ray.remote(time.sleep).remote(1000) for _ in range(IN_FLIGHT)]
    seconds = median_of(lambda: ray.wait([ray.put(0), *pending], num_returns=1))
    for left in pending:
        ray.cancel(left, force=True)
    return seconds / IN_FLIGHT


def keep(problem: Problem, parts: list[Digest]) -> float:
    """Seconds to keep a digest in a SQLite file."""
    with TemporaryDirectory() as folder:
        store = Store.open(str(Path(folder) / "store.db"))
        with store.study(problem, {"source": "inline", "sets": [], "command": "rank"}) as study:
            seconds = [timed(lambda i=i: study.store(i, parts[i])) for i in range(len(parts))]
    return statistics.median(seconds)


def main() -> None:
    """Measure, print, and with ``--save`` write what the page of the manual is made from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="pairs of searches")
    parser.add_argument("--batches", type=int, default=400, help="8,184 plans each")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_MODE"] = "disabled"
    # One thread of linear algebra here, as in the workers.
    os.environ["OMP_NUM_THREADS"] = "1"
    import ray
    from ray.cluster_utils import Cluster

    problem = problem_of(options.batches)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        found = {
            "plans": len(space_of(problem).grid),
            "load": os.getloadavg()[0],
            "speed_up": speed_up(cluster, problem, options.rounds),
            "costs": asdict(costs(cluster, problem)),
        }
    finally:
        ray.shutdown()
        cluster.shutdown()
    print(json.dumps(found, indent=2))
    if options.save:
        RESULTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
