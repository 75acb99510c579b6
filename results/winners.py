"""The end of a batch: one row a problem, and which plan wins where.

A *row* is what stands in the table of a batch: the position and labels of its problem, the state,
and what :func:`answer_of` took from the answer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from results.words import CURRENCY_UNIT, plan_name
from specs.grid import in_words
from specs.space import AXES

if TYPE_CHECKING:
    import pandas as pd

Document = Mapping[str, Any]

SCHEMA = "planner/batch/1"

STATES = ("waiting", "running", "done", "infeasible", "failed", "over_limit")
"""States of a problem in a batch, in the order in which they are shown."""

LEFT = ("waiting", "running")
"""States of problems that have no end yet."""

ANSWERED = ("done", "infeasible")
"""States of problems that have their answer."""

ACROSS = "hardware"
"""Dimension that runs across a table of winners."""

DOWN = "model"
"""Dimension that runs down."""

_OUTCOME = (
    *("plan", *AXES, "cards", "cost_per_on_time_session", "currency", "on_time_share", "tpot_s"),
    *("ttft_s", "tokens_per_s_per_card", "batch_size", "bound_by"),
)
_SPACE = ("certificate", "feasible", "feasible_plans", "candidates")
_NEXT = ("next_plan", "next_costs_more")
ANSWER_COLUMNS = (*_OUTCOME, *_SPACE, *_NEXT, "binding")
"""What the table holds of an answer; empty where there is none."""


def answer_of(document: Document) -> dict[str, Any]:
    """Return what the table of a batch holds of a ranking (``Ranking.document``).

    Shares, seconds and costs are those of the best plan; ``next_costs_more`` is a share of its
    cost; ``binding`` names the constraints that cannot hold together where nothing is feasible.
    """
    certificate, plans = document["certificate"], document["plans"]
    found: dict[str, Any] = {
        "certificate": certificate["kind"],
        "feasible": bool(plans),
        "feasible_plans": certificate["feasible"],
        "candidates": certificate["candidates"],
    }
    if not plans:
        return found | {"binding": _binding(document)}
    outcome = plans[0]["outcome"]
    found |= {
        "plan": plan_name(plans[0]["plan"]),
        **plans[0]["plan"],
        "cards": outcome["cards"],
        "cost_per_on_time_session": outcome["cost_per_on_time_session"],
        "currency": outcome["currency"],
        "on_time_share": _on_time_share(outcome),
        "tpot_s": outcome["tpot_s"]["max"],
        "ttft_s": outcome["ttft_s"]["max"],
        "tokens_per_s_per_card": outcome["tokens_per_s_per_card"],
        "batch_size": outcome["batch"],
        "bound_by": outcome["bound_by"],
    }
    if len(plans) > 1:
        best, second = (p["outcome"]["cost_per_on_time_session"] for p in plans[:2])
        found |= {"next_plan": plan_name(plans[1]["plan"]), "next_costs_more": second / best - 1}
    return found


def _on_time_share(outcome: Document) -> float:
    share = outcome.get("on_time_share")
    return outcome["on_time"] / outcome["sessions"] if share is None else share


def _binding(document: Document) -> str:
    """Name what rules everything out: the smallest set that cannot hold together, if known."""
    cores: list[list[str]] = document.get("conflict", {}).get("cores", [])
    if cores:
        smallest: list[str] = min(cores, key=len)
        return " + ".join(smallest)
    emptied = (row["constraint"] for row in document["funnel"] if not row["left"])
    return next(emptied, "")


def frame(rows: Sequence[Document]) -> "pd.DataFrame":
    """Return the rows as a table: position, state, labels, answer, then how it was found."""
    import pandas as pd

    flat = [
        {
            "position": row["position"],
            "state": row["state"],
            **row["label"],
            **dict.fromkeys(ANSWER_COLUMNS),
            **(row["answer"] or {}),
            "error": row["error"],
            "seconds": row["seconds"],
            "study": row["study_id"],
        }
        for row in rows
    ]
    return pd.DataFrame(flat).convert_dtypes()


@dataclass(frozen=True)
class Winners:
    """Which plan wins where: a row a model, a column a machine, for one setting of all else.

    ``where`` are the labels of the other dimensions; ``cells[i][j]`` is the row of a problem, or
    ``None`` where the batch has no such problem.
    """

    where: dict[str, str]
    down: tuple[str, ...]
    across: tuple[str, ...]
    cells: tuple[tuple[Document | None, ...], ...]

    @property
    def title(self) -> str:
        """The setting in words."""
        return in_words(self.where)

    def document(self) -> dict[str, Any]:
        """Return the table as JSON values; a cell is the name of the winner, or a state."""
        return {
            "where": self.where,
            DOWN: list(self.down),
            ACROSS: list(self.across),
            "winners": [[cell and word_of(cell) for cell in line] for line in self.cells],
        }


def winners(rows: Sequence[Document]) -> Iterator[Winners]:
    """Yield a table for each setting of the dimensions beside model and machine, in order."""
    tables: dict[tuple[tuple[str, str], ...], list[Document]] = {}
    for row in rows:
        where = tuple((k, v) for k, v in row["label"].items() if k not in (DOWN, ACROSS))
        tables.setdefault(where, []).append(row)
    for where, found in tables.items():
        down = tuple(dict.fromkeys(row["label"][DOWN] for row in found))
        across = tuple(dict.fromkeys(row["label"][ACROSS] for row in found))
        at = {(row["label"][DOWN], row["label"][ACROSS]): row for row in found}
        cells = tuple(tuple(at.get((model, machine)) for machine in across) for model in down)
        yield Winners(dict(where), down, across, cells)


def winner_of(row: Document) -> str | None:
    """Return the name of the best plan of a problem, if its answer has one."""
    return row["answer"]["plan"] if row["state"] == "done" else None


def word_of(row: Document) -> str:
    """Return the winner of a problem, or why there is none."""
    if row["state"] == "infeasible":
        return f"nothing feasible: {row['answer']['binding']}"
    return winner_of(row) or row["state"].replace("_", " ")


def wins(rows: Sequence[Document]) -> list[tuple[str, int]]:
    """Return the names of the winning plans and how often each wins, most frequent first."""
    counted = Counter(name for row in rows if (name := winner_of(row)))
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def numbers(rows: Sequence[Document]) -> dict[str, int]:
    """Return a number for each winning plan, 1 for the one that wins most often."""
    return {plan: number for number, (plan, _) in enumerate(wins(rows), start=1)}


def currency_of(rows: Sequence[Document]) -> str:
    """Return the unit of the costs; several if the problems count differently."""
    counted = (row["answer"]["currency"] for row in rows if winner_of(row))
    return " or ".join(CURRENCY_UNIT[name] for name in dict.fromkeys(counted))


def counts(rows: Sequence[Document]) -> dict[str, int]:
    """Return how many problems are in each state."""
    found = Counter(row["state"] for row in rows)
    return {state: found[state] for state in STATES}


def document(id: str, name: str, state: str, rows: Sequence[Document]) -> dict[str, Any]:
    """Return a batch as the JSON document that ``planner batch --json`` prints."""
    return {
        "schema": SCHEMA,
        "batch": id,
        "name": name,
        "state": state,
        "counts": counts(rows),
        "problems": [
            {
                "position": row["position"],
                "label": row["label"],
                "state": row["state"],
                "study": row["study_id"],
                "seconds": row["seconds"],
                "error": row["error"],
                "answer": row["answer"],
            }
            for row in rows
        ],
        "winners": [table.document() for table in winners(rows)],
    }
