"""Time of a search against the number of nodes, on paper, from costs that were measured.

One process, the driver, hands out tasks and takes in what they answer; ``workers`` do the tasks.
With ``n`` tasks of ``task_s`` each and ``w`` workers the search takes

    start + max(⌈n / w⌉ · task_s,  n · driver_s(w)) + driver_s(w)

where the driver spends on every task what it takes to hand it out, to look for it among those in
flight, to fetch its answer over the network, to keep it durably and to merge it.
"""

import math
from dataclasses import dataclass

CORES = 32
"""Processors of a node."""

LINK_BYTES_PER_S = 1.25e9
"""What the driver's node takes in: 10 Gbit/s."""


@dataclass(frozen=True)
class Costs:
    """Measured seconds and bytes; those with ``driver`` in their sum are spent one after another.

    ``start_s``        join the cluster, ask its nodes for their version, load the code there
    ``task_s``         do one task on one processor
    ``hand_out_s``     hand out an empty task and take in its answer
    ``look_s``         look for an answer, for every task in flight
    ``answer_bytes``   size of what a task answers
    ``fetch_s``        copy that out of the object store and unpack it
    ``keep_s``         keep it in the store
    ``merge_s``        merge it with the others
    """

    start_s: float
    task_s: float
    hand_out_s: float
    look_s: float
    answer_bytes: float
    fetch_s: float
    keep_s: float
    merge_s: float

    def driver_parts(self, in_flight: int) -> dict[str, float]:
        """Return what the driver spends on one task, in seconds, by what it does."""
        return {
            "handing out": self.hand_out_s,
            "looking for answers": self.look_s * in_flight,
            "network": self.answer_bytes / LINK_BYTES_PER_S,
            "unpacking": self.fetch_s,
            "keeping": self.keep_s,
            "merging": self.merge_s,
        }


@dataclass(frozen=True)
class Estimate:
    """Time of a search on some nodes, and what holds it back."""

    nodes: int
    seconds: float
    bound_by: str

    def speed_up(self, one: float) -> float:
        """How many times faster than one processor, which takes ``one`` seconds."""
        return one / self.seconds


def estimate(costs: Costs, tasks: int, nodes: int, in_flight: int = 2) -> Estimate:
    """Return the time of ``tasks`` tasks on ``nodes`` nodes, ``in_flight`` handed out a worker."""
    workers = nodes * CORES
    parts = costs.driver_parts(min(in_flight * workers, tasks))
    driver = sum(parts.values())
    working = math.ceil(tasks / workers) * costs.task_s
    terms = {
        "joining": costs.start_s,
        "processors" if tasks > workers else "number of chunks": working,
        f"driver: {max(parts, key=lambda part: parts[part])}": tasks * driver,
    }
    seconds = costs.start_s + max(working, tasks * driver) + driver
    return Estimate(nodes, seconds, max(terms, key=lambda term: terms[term]))


def one_processor_s(costs: Costs, tasks: int) -> float:
    """Time of the same tasks on one processor, without a cluster."""
    return tasks * (costs.task_s + costs.keep_s + costs.merge_s)
