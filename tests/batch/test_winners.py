"""The table, the map and the words at the end of a batch, and the board on the way."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from planner.board import Board, by_machine
from planner.tables import open_console
from planner.winner_tables import show_winners
from results.winners import counts, document, frame, winners, wins, word_of
from results.winners_page import render, winner_map, write_batch

ANSWER = {
    "plan": "tp=2 replicas=4",
    "replicas": 4,
    "prefill_replicas": 0,
    "cards": 8,
    "cost_per_on_time_session": 0.25,
    "currency": "gpu_seconds",
    "tpot_s": 0.02,
    "bound_by": "tpot",
    "feasible": True,
    "binding": None,
}


def row(position: int, state: str, model: str, machine: str, **changes: Any) -> dict[str, Any]:
    return {
        "position": position,
        "label": {"model": model, "hardware": machine, "workload": "chat", "limits.cards": "8"},
        "state": state,
        "study_id": f"study{position}",
        "seconds": 0.5,
        "error": None,
        "answer": None,
    } | changes


ROWS = [
    row(0, "done", "8b", "h100", answer=ANSWER),
    row(1, "infeasible", "8b", "l4", answer={"feasible": False, "binding": "memory + on_time"}),
    row(2, "done", "32b", "h100", answer=ANSWER | {"plan": "tp=8 replicas=1", "replicas": 1}),
    row(3, "failed", "32b", "l4", error="KeyError: 'bandwidth'"),
    row(4, "done", "70b", "h100", answer=ANSWER),
]


def test_a_row_for_each_problem_with_blanks_where_there_is_no_answer() -> None:
    table = frame(ROWS)
    assert table["model"].tolist() == ["8b", "8b", "32b", "32b", "70b"]
    assert table["plan"].notna().tolist() == [True, False, True, False, True]
    assert pd.api.types.is_integer_dtype(table["cards"])
    assert table["limits.cards"].tolist() == ["8"] * 5
    assert table.loc[1, "binding"] == "memory + on_time"
    assert table.loc[3, "error"] == "KeyError: 'bandwidth'"


def test_winners_stand_by_model_and_machine() -> None:
    (table,) = winners(ROWS)
    assert table.title == "chat · limits.cards=8"
    assert table.document() == {
        "where": {"workload": "chat", "limits.cards": "8"},
        "model": ["8b", "32b", "70b"],
        "hardware": ["h100", "l4"],
        "winners": [
            ["tp=2 replicas=4", "nothing feasible: memory + on_time"],
            ["tp=8 replicas=1", "failed"],
            ["tp=2 replicas=4", None],
        ],
    }
    assert wins(ROWS) == [("tp=2 replicas=4", 2), ("tp=8 replicas=1", 1)]
    assert word_of(ROWS[0] | {"state": "over_limit"}) == "over limit"


def test_the_document_is_json_and_counts_every_state() -> None:
    found = json.loads(json.dumps(document("id", "name", "done", ROWS), allow_nan=False))
    assert found["schema"] == "planner/batch/1"
    assert found["counts"] == counts(ROWS)
    assert sum(found["counts"].values()) == len(found["problems"]) == len(ROWS)


def test_the_map_is_darker_for_wider_instances_and_has_no_cell_twice() -> None:
    (table,) = winners(ROWS)
    figure = winner_map(table, {"tp=2 replicas=4": 1, "tp=8 replicas=1": 2})
    h100, l4 = figure.data
    assert list(h100.text) == ["<b>1</b>  0.25", "<b>2</b>  0.25", "<b>1</b>  0.25"]
    assert list(l4.text) == ["–", "failed", ""]
    two, eight, _ = (int(colour[1:3], 16) for colour in h100.marker.color)
    assert eight < two
    assert (h100.base, l4.base) == (0, 1)
    assert {trace.type for trace in figure.data} == {"bar"}  # the bundle draws no others
    assert "32b on h100" in h100.hovertext[1]


def test_the_page_stands_alone_and_escapes_what_people_wrote() -> None:
    page = render("<b>mine</b>", ROWS)
    assert "&lt;b&gt;mine&lt;/b&gt;" in page
    assert "src=" not in page.split("</script>", 1)[1]
    assert "32b · l4 · chat · limits.cards=8: KeyError" in page


def test_files_hold_the_same_rows(tmp_path: Path) -> None:
    files = list(write_batch("name", ROWS, tmp_path))
    assert [file.name for file in files] == ["winners.parquet", "winners.csv", "winners.html"]
    parquet, csv = pd.read_parquet(files[0]), pd.read_csv(files[1])
    assert parquet.columns.tolist() == csv.columns.tolist()
    assert parquet["plan"].fillna("").tolist() == csv["plan"].fillna("").tolist()


def test_winners_are_printed_with_numbers_that_are_explained(capsys: Any) -> None:
    show_winners(ROWS)
    printed = capsys.readouterr().out
    assert "chat · limits.cards=8" in printed
    assert "#1  tp=2 replicas=4  2 wins" in printed
    assert "0.250 #2" in printed
    assert "3 done, 1 infeasible, 1 failed" in printed
    assert "32b · l4 · chat · limits.cards=8: KeyError: 'bandwidth'" in printed


def test_specs_of_a_list_are_printed_one_a_line(capsys: Any) -> None:
    listed = [
        row(i, "done", "8b", "h100", answer=ANSWER) | {"label": label(f"spec-{i}")}
        for i in range(2)
    ]
    show_winners(listed)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:3]] == [
        [f"spec-{i}", "tp=2", "replicas=4", "0.250", "GPU·s"] for i in range(2)
    ]


def label(spec: str) -> dict[str, str]:
    return {"model": "8b", "hardware": "h100", "workload": "chat", "spec": spec}


def test_the_board_follows_what_it_is_told(capsys: Any) -> None:
    waiting = [r | {"state": "waiting", "answer": None, "seconds": None} for r in ROWS]
    board = Board("mine", waiting)
    assert board.line() == "mine: 5 waiting"
    board.tell([waiting[1] | {"state": "running"}, ROWS[0]])
    board.tell([ROWS[1]])
    assert board.ended == 2
    assert board.line().startswith("mine: 3 waiting, 1 done, 1 infeasible; ")
    assert board.line().endswith("left")
    open_console().print(board)
    printed = capsys.readouterr().out
    assert "8b · l4 · chat · limits.cards=8: nothing feasible: memory + on_time" in printed
    open_console().print(by_machine(ROWS))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["h100", "3/3", "3", "tp=2", "replicas=4", "(2)"]
    assert lines[2].split() == ["l4", "2/2", "1", "1"]
