"""What a sweep runs over, from text."""

import pytest

from searches.ranges import dimension
from specs.errors import SpecError
from specs.load import load_problem
from specs.problem import Problem
from tests.examples import FOUR_128K


@pytest.fixture(scope="module")
def problem() -> Problem:
    return load_problem(FOUR_128K)


@pytest.mark.parametrize(
    ("text", "path", "values"),
    [
        (
            "workload.classes[0].deadline=100 ms..200 ms:3",
            "workload.classes.continue.deadline",
            (0.1, 0.15, 0.2),
        ),
        (
            "hardware.memory.hbm.bandwidth=1 TB/s..4 TB/s:3:log",
            "hardware.memory.hbm.bandwidth",
            (1e12, 2e12, 4e12),
        ),
        ("limits.cards=1..4:4", "limits.cards", (1, 2, 3, 4)),
        ("limits.cards=1..4:100", "limits.cards", (1, 2, 3, 4)),
        ("limits.cards=2..8:log", "limits.cards", (2, 3, 4, 5, 6, 7, 8)),
        ("hardware=hgx-h100, hgx-h200", "hardware", ("hgx-h100", "hgx-h200")),
        ("space.tp=1,[2, 4]", "space.tp", (1, [2, 4])),
        ("workload.classes[0].deadline=1 s,2", "workload.classes.continue.deadline", (1.0, 2.0)),
        ("limits.power=1 kW..2 kW:2", "limits.power", (1000.0, 2000.0)),
        (
            "workload.classes[0].context=1K..3K:3",
            "workload.classes.continue.context",
            (1024, 2048, 3072),
        ),
    ],
)
def test_values(problem: Problem, text: str, path: str, values: tuple[object, ...]) -> None:
    found = dimension(problem, text)
    assert found.path == path
    assert found.values == values


def test_nine_values_unless_said(problem: Problem) -> None:
    assert len(dimension(problem, "limits.power=1 kW..2 kW").values) == 9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limits.cards", "expected PATH=LO..HI"),
        ("limits.cards=", "expected PATH=LO..HI"),
        ("limits.cards=8..1", "must rise"),
        ("limits.cards=1..8:1", "expected from 2 to 1,000 values"),
        ("limits.cards=1..8:many", "expected from 2 to 1,000 values"),
        ("limits.cards=a..8", "expected a number"),
        ("model.hidden=1..inf", "must be finite"),
        ("workload.classes[0].deadline=1 GB..2 GB", "'GB' is a unit of bytes"),
        ("hardware=hgx-h100..hgx-h200", "is no number"),
        ("assumptions.efficiency.decode.memory=0..1:5:log", "a low end above 0"),
        ("limits.cards=4,4", "stands twice"),
        ("limits.cards=" + ",".join(map(str, range(1001))), "1,001 values"),
    ],
)
def test_wrong_texts(problem: Problem, text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as wrong:
        dimension(problem, text)
    assert wrong.value.faults[0].path == "--over"


def test_a_path_that_is_not_there_has_a_near_one(problem: Problem) -> None:
    with pytest.raises(SpecError, match="Did you mean 'deadline'"):
        dimension(problem, "workload.classes[0].dedline=1..2")
