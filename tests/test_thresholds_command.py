"""``planner thresholds``: what it prints, and what it keeps."""

from pathlib import Path
from typing import Any

import pytest

from planner.thresholds import thresholds
from results.store import Store
from tests.examples import FOUR_128K

DEADLINE = "workload.classes.continue.deadline"


def test_thresholds_are_printed(planner: Any) -> None:
    done = planner("thresholds", FOUR_128K, "--over", DEADLINE, "--over", "limits.servers")
    assert done.code == 2
    done = planner("thresholds", FOUR_128K, "--over", DEADLINE, "--over", "model.max_context")
    assert done.code == 0
    assert "≤ 119.111 ms" in done.out
    assert "from 123.528 ms" in done.out
    assert "from 127.575 ms" in done.out
    assert "Nothing moves at all with: model.max_context" in " ".join(done.out.split())


def test_json_has_the_agreed_keys(planner: Any) -> None:
    done = planner("thresholds", FOUR_128K, "--over", DEADLINE, "--json")
    document = done.document
    assert document["schema"] == "planner/thresholds/1"
    assert document["best"]["plan"]["tp"] == 2
    (found,) = document["thresholds"]
    assert (found["path"], found["current"], found["unit"]) == (DEADLINE, 0.13, "s")
    assert found["below"]["plan"] is None
    assert found["above"] is None
    for item in document["feasible_from"]:
        assert item["path"] == DEADLINE
        assert item["plan"]["tp"] in (4, 8)
        assert item["value"] < 0.13


def test_nothing_feasible_ends_with_its_own_code(planner: Any) -> None:
    done = planner("thresholds", FOUR_128K, "--over", DEADLINE, "--set", f"{DEADLINE}=1 ms")
    assert done.code == 3
    assert "planner rank says why" in done.err


def test_interrupted_thresholds_go_on(tmp_path: Path) -> None:
    over = ["limits.cards", "assumptions.acceptance[0]", "model.max_context"]
    whole = thresholds(FOUR_128K, over=over)
    store = Store.open(str(tmp_path / "s.db"))

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        thresholds(FOUR_128K, over=over, progress=stop, store=store)
    told: list[tuple[int, int]] = []
    resumed = thresholds(
        FOUR_128K, over=over, progress=lambda *done: told.append(done), store=store
    )
    assert resumed == whole
    assert told == [(2, 3), (3, 3)]
    store.close()
