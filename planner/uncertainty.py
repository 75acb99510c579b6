"""Plans under uncertain figures: which is best how often, and what to measure."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from planner.questions import Nothing, parts
from planner.sweeps import Asking
from results import uncertainty as results
from searches import priced, sweep
from searches.spreads import draw, uncertain
from searches.variants import Changes, Key
from specs.errors import SpecError

Document = dict[str, Any]

KIND = "uncertainty"

SAMPLES = 256
"""Draws of the uncertain figures if no number is given."""

LEAST, MOST = 32, 8192


def uncertainty(asking: Asking, samples: int = SAMPLES) -> Document:
    """Rank the problem at draws of its uncertain figures, and weigh the plans over them.

    The plans weighed are the best at the stated values, and every one that is best in a draw.
    Raises ``SpecError`` for bad input, before any work.
    """
    problem, executor = asking.about()
    if samples < LEAST or samples > MOST or samples & (samples - 1):
        raise SpecError.single(
            "--samples", samples, f"expected a power of 2 from {LEAST} to {MOST:,}"
        )
    found = uncertain(problem)
    if not found:
        raise SpecError.single(
            "uncertainty", None, "states no spread", "Write e.g. uncertainty: {PATH: ± 20 %}"
        )
    every: list[Changes] = [{}, *draw(found, samples, problem.search.seed)]

    def document(answers: list[Document]) -> Document:
        keys = _candidates(answers)
        if not keys:
            return results.document(problem, found, every[1:], keys, np.empty((samples, 0)))
        costs = parts(
            executor,
            priced.costs,
            (problem, keys),
            sweep.spans(every),
            lambda rows: {"costs": rows},
            Nothing(),
            lambda done, total: None,
        )
        matrix = np.array([row for part in costs for row in part["costs"]])
        return results.document(problem, found, every[1:], keys, matrix[1:])

    return asking.answer(problem, executor, {"samples": samples}, every, document, KIND)


def weigh(document: Document, asking: Asking) -> None:
    """Add chances and regret to the plans of a ranking, and the whole answer beside them."""
    found = uncertainty(asking)
    document["uncertainty"] = found
    for item in document["plans"]:
        row = next((row for row in found["plans"] if row["plan"] == item["plan"]), None)
        item["chance_best"] = row["chance_best"] if row else 0.0
        item["expected_regret"] = row["expected_regret"] if row else None


def _candidates(answers: Sequence[Document]) -> tuple[Key, ...]:
    """Return the best plans as stated, and every plan that is best in a draw."""
    stated = [key for key, _ in answers[0]["leading"]]
    winners = [answer["best"] for answer in answers if answer["best"]]
    return tuple(dict.fromkeys(tuple(key) for key in (*stated, *winners)))
