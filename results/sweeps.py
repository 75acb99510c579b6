"""Sweeps as JSON values and tables: which plan wins where, and what the best cost hangs on."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from results.words import common_axes, plan_name
from searches.ranges import Dimension
from searches.variants import Answer, Changes, Key, plan_of
from specs.load import problem_hash
from specs.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

Document = dict[str, Any]

SCHEMA = "planner/sweep/1"

_FIGURES = ("cost", "on_time", "cards", "tpot_s", "ttft_s", "bound_by", "feasible")


def part_document(answers: Sequence[Answer]) -> Document:
    """Return the answers of one task as JSON values; plans by their keys."""
    return {
        "answers": [
            {
                "best": answer.best,
                **{name: getattr(answer, name) for name in _FIGURES},
                "leading": answer.leading,
                "refused": answer.refused,
            }
            for answer in answers
        ]
    }


def answers_of(parts: Iterable[Document]) -> list[Document]:
    """Return the answers of all tasks, in order."""
    return [answer for part in parts for answer in part["answers"]]


def header(problem: Problem, schema: str) -> Document:
    """Return what every answer to a question begins with."""
    return {
        "schema": schema,
        "name": problem.name,
        "problem_hash": problem_hash(problem),
        "currency": problem.objective.currency,
    }


def document(
    problem: Problem,
    dimensions: Sequence[Dimension],
    every: Sequence[Changes],
    answers: Sequence[Document],
) -> Document:
    """Return a sweep: its dimensions, its points, and the plans that they name by number."""
    plans = Plans(answers)
    return {
        **header(problem, SCHEMA),
        "dimensions": [_dimension(dimension) for dimension in dimensions],
        "plans": plans.document(),
        "points": [
            {"values": dict(point), **plans.point(answer)}
            for point, answer in zip(every, answers, strict=True)
        ],
    }


def _dimension(dimension: Dimension) -> Document:
    return {
        "path": dimension.path,
        "unit": dimension.unit,
        "log": dimension.range is not None and dimension.range.log,
        "range": dimension.range is not None,
        "values": list(dimension.values),
    }


class Plans:
    """The plans that some answers name, by number: those that win most often first."""

    def __init__(self, answers: Sequence[Document]) -> None:
        won = Counter(_key(answer["best"]) for answer in answers if answer["best"])
        led = Counter(_key(key) for answer in answers for key, _ in answer["leading"])
        self.wins = {key: won[key] for key in sorted(led, key=lambda key: (-won[key], key))}
        self.numbers = {key: number for number, key in enumerate(self.wins)}

    def document(self) -> list[Document]:
        """Return the plans, with a short name of each and how often it wins."""
        plans = [plan_of(key) for key in self.wins]
        common = common_axes(plans)
        return [
            {"name": plan_name(plan, common), "wins": wins, "plan": plan}
            for plan, wins in zip(plans, self.wins.values(), strict=True)
        ]

    def number(self, key: Sequence[int] | None) -> int | None:
        """Return the number of a plan."""
        return self.numbers[_key(key)] if key else None

    def point(self, answer: Document) -> Document:
        """Return an answer with its plans by number."""
        figures = {name: answer[name] for name in _FIGURES}
        return {
            "winner": self.number(answer["best"]),
            "cost_per_on_time_session": figures.pop("cost"),
            **figures,
            "leading": [
                {"plan": self.number(key), "cost_per_on_time_session": cost}
                for key, cost in answer["leading"]
            ],
            "refused": answer["refused"],
        }


def _key(key: Sequence[int]) -> Key:
    return tuple(key)


def word(document: Mapping[str, Any], point: Mapping[str, Any]) -> str:
    """Return the winner of a point in words, or why there is none."""
    if point["refused"]:
        return "refused by the spec"
    if point["winner"] is None:
        return "nothing feasible"
    name: str = document["plans"][point["winner"]]["name"]
    return name


def frame(document: Mapping[str, Any]) -> "pd.DataFrame":
    """Return the points as a table: the values of the leaves, then the answer."""
    import pandas as pd

    rows = [
        {
            **point["values"],
            "winner": word(document, point),
            **{k: v for k, v in point.items() if k not in ("values", "winner", "leading")},
        }
        for point in document["points"]
    ]
    return pd.DataFrame(rows)
