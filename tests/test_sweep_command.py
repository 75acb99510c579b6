"""``planner sweep``: grids, tornado and Sobol indices; what they print, write, keep and resume."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner import sweeps
from planner.studies import rank
from planner.sweeps import Asking
from results import sweep_plots
from results.store import Store
from searches import sweep as tasks
from searches.executors import LocalExecutor
from searches.exhaustive import search
from specs.load import load_problem
from tests.examples import FOUR_128K

Document = dict[str, Any]

DEADLINE = "workload.classes.continue.deadline"
CAPACITY = "hardware.memory.hbm.capacity"
LINE = ["workload.classes[0].deadline=110 ms..150 ms:5"]
MAP = [f"{DEADLINE}=100 ms,140 ms", f"{CAPACITY}=30 GB..80 GB:3"]


@pytest.fixture(scope="module")
def line() -> Document:
    return sweeps.sweep(Asking(FOUR_128K), LINE)


@pytest.fixture(scope="module")
def table() -> Document:
    return sweeps.sweep(Asking(FOUR_128K), MAP)


def winner(document: Document, point: Document) -> int | None:
    """TP degree of the best plan."""
    number = point["winner"]
    return None if number is None else document["plans"][number]["plan"]["tp"]


def test_every_point_is_a_ranking(table: Document) -> None:
    assert len(table["points"]) == 6
    for point in table["points"]:
        sets = [f"{path}={value!r}" for path, value in point["values"].items()]
        found = search(load_problem(FOUR_128K, sets), LocalExecutor())
        assert point["feasible"] == found.ranked.size
        if point["feasible"]:
            best = found.ranked[0]
            cost = float(found.evaluated.outcomes.cost[best])
            assert table["plans"][point["winner"]]["plan"] == found.evaluated.plans.row(best)
            assert point["cost_per_on_time_session"] == cost
            assert point["leading"][0] == {"plan": point["winner"], **_cost(cost)}


def _cost(cost: float) -> Document:
    return {"cost_per_on_time_session": cost}


def test_winners_go_with_the_memory(table: Document) -> None:
    winners = [winner(table, point) for point in table["points"]]
    assert winners == [None, None, None, 8, 2, 2]
    assert [plan["wins"] for plan in table["plans"]][:2] == [2, 1]


def test_the_last_dimension_runs_fastest(table: Document) -> None:
    assert [p["values"][CAPACITY] for p in table["points"][:3]] == [30e9, 55e9, 80e9]
    assert [d["path"] for d in table["dimensions"]] == [DEADLINE, CAPACITY]


def test_the_table_is_printed(planner: Any) -> None:
    done = planner("sweep", FOUR_128K, "--over", LINE[0])
    assert done.code == 0
    assert "110.000 ms" in done.out
    assert "nothing feasible" in done.out
    assert "tp=2 replicas=4" in done.out


def test_csv_has_a_row_a_point(planner: Any) -> None:
    done = planner("sweep", FOUR_128K, "--over", LINE[0], "--csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [float(row[DEADLINE]) for row in rows] == [0.11, 0.12, 0.13, 0.14, 0.15]
    assert rows[0]["winner"] == "nothing feasible"
    assert float(rows[1]["cost_per_on_time_session"]) == pytest.approx(0.238222, rel=1e-5)


def test_words_and_refused_combinations() -> None:
    over = ["hardware=hgx-h100,dgx-h100-nvlink-256", "limits.cards=8,16"]
    found = sweeps.sweep(Asking(FOUR_128K), over)
    refused = [bool(point["refused"]) for point in found["points"]]
    assert refused == [False, True, False, False]
    assert "must not exceed the 8 cards" in found["points"][1]["refused"]


def test_nothing_feasible_anywhere_is_said(planner: Any) -> None:
    done = planner("sweep", FOUR_128K, "--over", f"{DEADLINE}=1 ms..2 ms:2", "--json")
    assert done.code == 3
    assert done.document["plans"] == []
    assert "nothing is feasible at any point" in done.err


def test_files_are_written(planner: Any, tmp_path: Path, table: Document) -> None:
    words = [word for over in MAP for word in ("--over", over)]
    done = planner("sweep", FOUR_128K, *words, "--json", "--out", str(tmp_path))
    assert done.document == table
    assert {file.name for file in tmp_path.iterdir()} == {"sweep.json", "sweep.csv", "sweep.html"}
    page = (tmp_path / "sweep.html").read_text(encoding="utf-8")
    assert "Which plan wins where" in page
    assert "http://" not in page.split("<body>")[1]


def test_curves_have_a_band_where_a_plan_wins(line: Document) -> None:
    figure = sweep_plots.curves(line)
    assert [trace.name for trace in figure.data] == [plan["name"] for plan in line["plans"]]
    bands = [(shape.x0, shape.x1, shape.fillcolor) for shape in figure.layout.shapes]
    assert bands == [
        (0.11, pytest.approx(0.115), sweep_plots.colour(None)),
        (pytest.approx(0.115), 0.15, sweep_plots.colour(0)),
    ]


def test_the_map_has_the_colours_of_the_winners(table: Document) -> None:
    (figure,) = sweep_plots.figures(table)
    cells = [list(bar.marker.color) for bar in figure.data]
    numbers = [point["winner"] for point in table["points"]]
    assert [colour for row in zip(*cells, strict=True) for colour in row] == [
        sweep_plots.colour(number) for number in numbers
    ]
    assert "per on-time session" in figure.data[1].hovertext[1]


def test_three_dimensions_have_a_map_for_each_setting() -> None:
    found = sweeps.sweep(Asking(FOUR_128K), ["limits.cards=4,8", *MAP])
    titles = [figure.layout.title.text for figure in sweep_plots.figures(found)]
    assert titles == ["limits.cards = 4", "limits.cards = 8"]


@pytest.fixture(scope="module")
def swings() -> Document:
    over = [DEADLINE, "hardware.memory.hbm.bandwidth", "model.vocab", "assumptions.acceptance[0]"]
    return sweeps.tornado(Asking(FOUR_128K), "20%", [*over, "limits.cards"])


def test_a_tornado_is_sorted_by_swing(swings: Document) -> None:
    now = rank(FOUR_128K).costs[0]
    assert swings["best"]["cost_per_on_time_session"] == now
    paths = [bar["path"] for bar in swings["bars"]]
    # Nothing is feasible at one end of the first two.
    assert paths[:2] == ["hardware.memory.hbm.bandwidth", DEADLINE]
    assert paths[2:] == ["limits.cards", "model.vocab", "assumptions.acceptance[0]"]
    vocab = swings["bars"][3]
    costs = [vocab[side]["cost_per_on_time_session"] for side in ("below", "above")]
    assert costs[0] < now < costs[1]
    assert vocab["swing"] == costs[1] - costs[0]


def test_a_tornado_marks_changes_of_the_winner(swings: Document) -> None:
    changes = {bar["path"]: bar["winner_changes"] for bar in swings["bars"]}
    assert changes == {
        "hardware.memory.hbm.bandwidth": True,
        DEADLINE: True,
        "limits.cards": True,
        "model.vocab": False,
        "assumptions.acceptance[0]": False,
    }
    names = list(sweep_plots.tornado(swings).data[0].y)
    assert [name.endswith("★") for name in names] == [True, True, True, False]


def test_a_tornado_is_printed(planner: Any, tmp_path: Path) -> None:
    words = ("--over", DEADLINE, "--over", "model.vocab", "--out", str(tmp_path))
    done = planner("sweep", FOUR_128K, "--tornado", "20%", *words)
    assert done.code == 0
    assert "104.000 ms" in done.out
    assert "nothing feasible" in done.out
    assert "What the best cost hangs on" in (tmp_path / "sweep.html").read_text(encoding="utf-8")


def test_sobol_indices_are_printed(planner: Any, tmp_path: Path) -> None:
    over = ("hardware.memory.hbm.bandwidth=3.3 TB/s..5 TB/s:log", "model.vocab=150000..160000")
    words = ("--sobol", "16", "--over", over[0], "--over", over[1], "--out", str(tmp_path))
    done = planner("sweep", FOUR_128K, *words)
    assert done.code == 0
    assert "shares of its variance" in done.out
    assert "Sobol indices" in (tmp_path / "sweep.html").read_text(encoding="utf-8")


def test_an_interrupted_sweep_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "TOGETHER", 1)
    store = Store.open(str(tmp_path / "s.db"))
    whole = sweeps.sweep(Asking(FOUR_128K), LINE)

    with pytest.raises(KeyboardInterrupt):
        sweeps.sweep(Asking(FOUR_128K, progress=_interrupt_after(3), store=store), LINE)
    told: list[tuple[int, int]] = []
    resumed = sweeps.sweep(
        Asking(FOUR_128K, progress=lambda *done: told.append(done), store=store), LINE
    )
    assert resumed == whole
    assert told == [(3, 5), (4, 5), (5, 5)]

    told.clear()
    again = Asking(FOUR_128K, progress=lambda *done: told.append(done), store=store)
    assert sweeps.sweep(again, LINE) == whole
    assert told == []
    store.close()


def _interrupt_after(most: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        if done == most:
            raise KeyboardInterrupt

    return progress


def test_a_kept_sweep_is_listed(planner: Any, tmp_path: Path) -> None:
    kept = ("--store", str(tmp_path / "s.db"))
    planner("sweep", FOUR_128K, "--over", "limits.cards=4,8", *kept)
    listed = planner("studies", "list", "--kind", "sweep", "--json", *kept).document["studies"]
    assert [study["kind"] for study in listed] == ["sweep"]
    shown = planner("studies", "show", listed[0]["id"][:12], *kept)
    assert shown.code == 0
    assert "A sweep" in shown.out
    assert planner("studies", "list", *kept).code == 0
    done = planner("studies", "export", listed[0]["id"], "--out", str(tmp_path / "x"), *kept)
    assert done.code == 2
    assert "keeps no table of plans" in done.err


def test_a_sweep_is_the_same_elsewhere(elsewhere: str, table: Document) -> None:
    assert sweeps.sweep(Asking(FOUR_128K, executor_name=elsewhere), MAP) == table
