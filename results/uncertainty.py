"""Plans under uncertain figures, as JSON values and in a sentence."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from costmodels.plans import FloatArray
from results.sweeps import header
from results.words import NOTHING, common_axes, plan_name, share
from searches.regret import MISSED, regret, saved
from searches.spreads import Uncertain
from searches.variants import Changes, Key, plan_of
from specs.problem import Problem

Document = dict[str, Any]

SCHEMA = "planner/uncertainty/1"

LEAST_SAVED = 1e-3
"""Expected regret below which a measurement is not worth naming."""


def document(
    problem: Problem,
    found: Sequence[Uncertain],
    samples: Sequence[Changes],
    keys: Sequence[Key],
    costs: FloatArray,
) -> Document:
    """Return chances and regret of each plan, the least regret first, and what to measure.

    Parameters
    ----------
    keys: the plans; the first is the best at the values that the spec states.
    costs: cost of each plan in each sample, shape ``(samples, plans)``; inf where infeasible.
    """
    told = {
        **header(problem, SCHEMA),
        "samples": len(samples),
        "seed": problem.search.seed,
        "regret_of_a_missed_limit": MISSED,
    }
    if not np.isfinite(costs).any():
        return {**told, "nothing_feasible": 1.0, "plans": [], "measurements": []}
    weighed = regret(costs)
    plans = [plan_of(key) for key in keys]
    common = common_axes(plans)
    rows = [
        {
            "name": plan_name(plan, common),
            "plan": plan,
            "best_as_stated": position == 0,
            "chance_best": float(weighed.chance_best[position]),
            "chance_feasible": float(weighed.chance_feasible[position]),
            "expected_regret": float(weighed.expected[position]),
            "tie_with_least": bool(weighed.tied[position]),
        }
        for position, plan in enumerate(plans)
    ]
    return {
        **told,
        "nothing_feasible": weighed.infeasible,
        "plans": [rows[at] for at in np.argsort(weighed.expected, kind="stable")],
        "measurements": _measurements(found, samples, costs),
    }


def _measurements(
    found: Sequence[Uncertain], samples: Sequence[Changes], costs: FloatArray
) -> list[Document]:
    """Return what knowing each figure would save, the most first."""
    rows = []
    for one in found:
        values = np.array([sample[one.leaf.path] for sample in samples], dtype=np.float64)
        rows.append(
            {
                "path": one.leaf.path,
                "unit": one.leaf.unit,
                "value": one.leaf.value,
                "low": float(one.points.min()),
                "high": float(one.points.max()),
                "saves": saved(costs, values),
            }
        )
    return sorted(rows, key=lambda row: -row["saves"])


def lead(document: Document) -> str:
    """Say which plan to take, how sure that is, and which measurement would help most."""
    if not document["plans"]:
        return NOTHING
    first = document["plans"][0]
    said = (
        f"{first['name'] or 'The only plan'} has the least expected regret, "
        f"{share(first['expected_regret'])}: it is the best in {share(first['chance_best'])} of "
        f"{_served(document)} draws of the uncertain figures"
    )
    if first["chance_feasible"] < 1:
        said += f", and breaks a limit in {share(1 - first['chance_feasible'])}"
    ties = sum(row["tie_with_least"] for row in document["plans"])
    if ties:
        said += f"; {ties} more {'is' if ties == 1 else 'are'} not told from it"
    return f"{said}. {_advice(document)}"


def _served(document: Document) -> str:
    """Say in how many draws anything is feasible: the others tell no plans apart."""
    whole = document["samples"]
    served = round(whole * (1 - document["nothing_feasible"]))
    return f"{whole}" if served == whole else f"the {served} feasible ones of {whole}"


def _advice(document: Document) -> str:
    best = document["measurements"][0]
    if best["saves"] < LEAST_SAVED:
        return "No single measurement would lead to a better choice."
    return (
        f"Measure {best['path']} first: knowing it would save {share(best['saves'])} of the cost "
        f"on average."
    )
