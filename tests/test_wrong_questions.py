"""Wrong questions about an answer: exit code 2 and one message, before any work."""

from typing import Any, NamedTuple

import pytest

from searches.exhaustive import explore
from tests.examples import FOUR_128K


class Wrong(NamedTuple):
    """The words after the spec, and what the fault that they end with says."""

    words: tuple[str, ...]
    message: str
    path: str = "--over"
    hint: str = ""


SWEEP, MOVE = "sweep", "thresholds"
BANDWIDTH = "hardware.memory.hbm.bandwidth"

WRONG = {
    "nothing to run over": Wrong((SWEEP,), "names nothing to run over"),
    "no values": Wrong((SWEEP, "--over", BANDWIDTH), "expected PATH=LO..HI"),
    "falling range": Wrong((SWEEP, "--over", "limits.cards=8..1"), "must rise"),
    "one value of a range": Wrong((SWEEP, "--over", "limits.cards=1..8:1"), "from 2 to 1,000"),
    "count that is none": Wrong((SWEEP, "--over", "limits.cards=1..8:few"), "got 'few'"),
    "unit of another kind": Wrong(
        (SWEEP, "--over", f"{BANDWIDTH}=1 ms..2 ms"), "'ms' is a unit of seconds"
    ),
    "no number": Wrong((SWEEP, "--over", "limits.cards=one..8"), "expected a number"),
    "infinite": Wrong((SWEEP, "--over", "model.vocab=1..inf"), "must be finite"),
    "range of names": Wrong((SWEEP, "--over", "hardware=hgx-h100..hgx-h200"), "is no number"),
    "ratios from 0": Wrong(
        (SWEEP, "--over", "assumptions.workspace=0..8 GiB:5:log"), "a low end above 0"
    ),
    "value twice": Wrong((SWEEP, "--over", "limits.cards=4,4"), "a value stands twice"),
    "leaf twice": Wrong(
        (SWEEP, "--over", "limits.cards=1..8", "--over", "limits.cards=4,8"), "stands twice"
    ),
    "unknown leaf": Wrong(
        (SWEEP, "--over", "hardware.memory.hbm.bandwith=1..2"),
        "unknown key",
        "hardware.memory.hbm.bandwith",
        "Did you mean 'bandwidth'?",
    ),
    "unknown machine": Wrong(
        (SWEEP, "--over", "hardware=hgx-h100,hgx-h2000"), "no hardware of that name"
    ),
    "value that the spec refuses": Wrong(
        (SWEEP, "--over", "limits.cards=4,9"), "must not exceed the 8 cards of hgx-h100"
    ),
    "word that the spec refuses": Wrong(
        (SWEEP, "--over", "assumptions.overlap=whole_step,half_step"), "is refused"
    ),
    "too many points": Wrong(
        (SWEEP, "--over", f"{BANDWIDTH}=1..2:101", "--over", "limits.power=1..2:100"),
        "101 × 100 = 10,100 problems, more than the 10,000",
    ),
    "two kinds at once": Wrong((SWEEP, "--tornado", "20%", "--sobol", "16"), "exclude", ""),
    "two formats at once": Wrong(
        (SWEEP, "--over", "limits.cards=4,8", "--csv"), "--json and --csv exclude", ""
    ),
    "table of a tornado": Wrong((SWEEP, "--tornado", "20%", "--csv"), "exclude", ""),
    "share that is none": Wrong((SWEEP, "--tornado", "wide"), "a quantity in share", "--tornado"),
    "share of more than all": Wrong((SWEEP, "--tornado", "2"), "between 0 and 1", "--tornado"),
    "tornado of values": Wrong(
        (SWEEP, "--tornado", "20%", "--over", "limits.cards=4,8"), "not a path", "limits.cards=4,8"
    ),
    "tornado that moves nothing": Wrong(
        (SWEEP, "--tornado", "20%", "--over", "assumptions.overhead"), "moves none", "--tornado"
    ),
    "samples of Sobol": Wrong(
        (SWEEP, "--sobol", "100", "--over", "limits.cards=1..8", "--over", "model.vocab=1..9"),
        "a power of two",
        "--sobol",
    ),
    "Sobol without ranges": Wrong((SWEEP, "--sobol", "16"), "names nothing to run over"),
    "Sobol of a list": Wrong(
        (SWEEP, "--sobol", "16", "--over", "limits.cards=4,8", "--over", "model.vocab=1..9"),
        "a list has no Sobol index",
    ),
    "too many samples": Wrong(
        (SWEEP, "--sobol", "4096", "--over", "limits.cards=1..8", "--over", "model.vocab=1..9"),
        "16,384 problems",
        "--sobol",
    ),
    "Sobol of one leaf": Wrong(
        (SWEEP, "--sobol", "16", "--over", "limits.cards=1..8"), "needs two ranges", "--sobol"
    ),
    "threshold of what is not there": Wrong(
        (MOVE, "--over", "limits.card"), "unknown key", "limits.card", "Did you mean 'cards'?"
    ),
    "threshold of a word": Wrong((MOVE, "--over", "model.name"), "is no number", "model.name"),
    "threshold of what is not set": Wrong(
        (MOVE, "--over", "limits.power"), "is not set", "limits.power"
    ),
    "threshold of an axis": Wrong(
        (MOVE, "--over", "space.tp[0]"), "says how to search", "space.tp[0]"
    ),
    "threshold of a part": Wrong(
        (MOVE, "--over", "hardware.memory"),
        "is no number",
        "hardware.memory",
        "Name one of its leaves, e.g. hardware.memory.hbm.capacity",
    ),
    "threshold of values": Wrong(
        (MOVE, "--over", "limits.cards=4..8"), "not a path", "limits.cards=4..8"
    ),
    "unknown executor": Wrong(
        (MOVE, "--over", "limits.cards", "--executor", "process"),
        "expected local, processes[:N] or ray[:ADDRESS]",
        "search.executor",
    ),
    "unknown cost model": Wrong(
        (SWEEP, "--over", "limits.cards=4,8", "--cost-model", "rooflin"), "", "cost_model"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_questions(name: str, planner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_work(*_: object) -> None:
        raise AssertionError("something was computed")

    monkeypatch.setattr("searches.variants.explore", no_work)
    wrong = WRONG[name]
    command, *words = wrong.words
    done = planner(command, FOUR_128K, *words, "--json")
    assert done.code == 2, done.err
    (fault,) = done.document["errors"]
    assert wrong.message in fault["message"]
    assert fault["path"] == wrong.path
    assert wrong.hint in fault["hint"]


def test_the_work_is_what_is_watched() -> None:
    """The tests above replace the search; it must be the one that variants use."""
    from searches import variants

    assert variants.explore is explore
