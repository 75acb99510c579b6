"""The assumptions in force and the warnings that follow, for every report."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel

from specs.engine import Engine
from specs.engines import sources
from specs.paths import leaf_unit
from specs.problem import Problem
from specs.routing import HistogramRouting, SkewRouting

Document = dict[str, Any]


def leaves(part: BaseModel, prefix: str = "") -> list[tuple[str, Any, bool]]:
    """Return the dotted name of every value inside a part of a spec, the value in a form that JSON
    can hold, and whether a spec states it.
    """
    found: list[tuple[str, Any, bool]] = []
    for name in type(part).model_fields:
        value = getattr(part, name)
        stated = name in part.model_fields_set
        if isinstance(value, SkewRouting | HistogramRouting):
            found.append((f"{prefix}{name}", value.summary, stated))
        elif isinstance(value, BaseModel):
            found += leaves(value, f"{prefix}{name}.")
        elif isinstance(value, tuple):
            listed = [v.model_dump() if isinstance(v, BaseModel) else v for v in value]
            found.append((f"{prefix}{name}", listed, stated))
        else:
            found.append((f"{prefix}{name}", value, stated))
    return found


def assumptions(problem: Problem, departures: Mapping[str, Document]) -> list[Document]:
    """Every named assumption with its value and where it comes from.

    ``departures``: what the default of some of them would make of the best plan.
    """
    listed = [
        {"name": name, "value": value, "source": "spec" if stated else "default"}
        | ({"unit": unit} if (unit := leaf_unit(f"assumptions.{name}")) else {})
        | ({"with_default": departures[name]} if name in departures else {})
        for name, value, stated in leaves(problem.assumptions)
    ]
    if problem.engine is not None:
        listed += _engine(problem.engine)
    hardware = problem.hardware
    listed += [
        {
            "name": f"latency of {level.name}",
            "value": level.latency,
            "unit": "s",
            "source": level.source or hardware.name,
        }
        for level in hardware.levels
    ]
    listed += [
        {
            "name": f"measured {row.operation}, {row.ranks} ranks on {row.span} servers, "
            f"{row.bytes:.0f} bytes",
            "value": row.seconds,
            "unit": "s",
            "source": row.source or hardware.name,
        }
        for row in hardware.collectives
    ]
    return listed


def _engine(engine: Engine) -> list[Document]:
    """Inputs of a serving engine, each with the source of its default or the spec."""
    found = sources(engine)
    prefix = "engine.memory."
    return [
        {"name": name, "value": value, "source": found[name.removeprefix(prefix).split(".")[0]]}
        | ({"unit": unit} if (unit := leaf_unit(name)) else {})
        for name, value, _ in leaves(engine.memory, prefix)
        if value is not None
    ]


def warnings(problem: Problem, sampled: bool) -> list[str]:
    """What a reader must know before trusting the numbers."""
    found = []
    at_peak = all(value in (1, None) for _, value, _ in leaves(problem.assumptions.efficiency))
    if problem.cost_model.startswith("roofline") and at_peak:
        found.append(
            "All efficiencies are 1 (data-sheet peaks), so times are lower bounds: measured "
            "serving is slower. Set assumptions.efficiency and assumptions.overhead."
        )
    if not any((c.deadline, c.ttft, c.tpot) != (None,) * 3 for c in problem.workload.classes):
        found.append("No class of sessions states a deadline, ttft or tpot: all are on time.")
    if isinstance(problem.assumptions.routing, HistogramRouting):
        found += _unseen(problem.assumptions.routing)
    if sampled:
        found.append("The space is large: the counts of the funnel are scaled from a sample.")
    return found


def _unseen(routing: HistogramRouting) -> list[str]:
    """Say how many experts an observation never saw, which no batch reaches."""
    counts = np.array(routing.counts)
    unseen = np.count_nonzero(counts == 0)
    if not unseen:
        return []
    return [
        f"No token of the observation chose {unseen:,} of the {counts.size:,} experts in its "
        f"{len(counts)} layers; they are never read, so reads of large batches may be low."
    ]
