"""Sampling from the command line: what it says of itself, what it keeps, and what it writes."""

import csv
import json

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from tests.examples import FOUR_128K, MOE_8K

HBM = "hardware.memory.hbm.bandwidth"
KNOB = ("--set", f"search.variables={{{HBM}: {{low: 1 TB/s, high: 8 TB/s, log: true}}}}")
FEW = ("--set", "search.trials=10")


@pytest.fixture
def answered(planner, tmp_path):
    done = planner("rank", MOE_8K, *KNOB, *FEW, "--json", "--out", str(tmp_path), "--store", "none")
    return done.document, tmp_path


def test_the_answer_says_what_was_tried_and_why(answered):
    document, _ = answered
    assert document["certificate"]["kind"] == "best_of"
    assert document["certificate"]["n"] == 10
    assert "a variable is chosen" in document["search"]["why"]
    values = [plan["variables"][HBM] for plan in document["plans"]]
    assert all(1e12 <= value <= 8e12 for value in values)
    assert values == sorted(values, reverse=True)


def test_an_exhaustive_answer_says_so_too(planner):
    document = planner("rank", FOUR_128K, "--json", "--store", "none").document
    assert document["search"]["method"] == "exhaustive"
    assert document["certificate"]["kind"] == "optimal"


def test_the_history_opens_in_optuna(answered):
    document, folder = answered
    journal = JournalStorage(JournalFileBackend(str(folder / "trials.journal")))
    study = optuna.load_study(study_name="planner", storage=journal)
    assert len(study.trials) == 10
    best = document["plans"][0]
    assert study.best_value == best["outcome"]["cost_per_on_time_session"]
    assert study.best_params == best["variables"]
    with (folder / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row[f"{HBM} [bytes/s]"] for row in rows} == {str(t.params[HBM]) for t in study.trials}
    assert "<script" in (folder / "trials.html").read_text()


def test_what_was_kept_is_answered_again_and_started_from(planner, tmp_path, monkeypatch):
    monkeypatch.setattr("results.versions.code_fingerprint", lambda: "fixed")
    store = ("--store", str(tmp_path / "kept.db"))
    first = planner("rank", MOE_8K, *KNOB, *FEW, "--json", *store).document
    with monkeypatch.context() as idle:
        idle.setattr("searches.sampling.search.sample", None)
        again = planner("rank", MOE_8K, *KNOB, *FEW, "--json", *store).document
    assert again == first
    words = ("--set", f"search.start_from={first['study'][:12]}", "--set", "search.seed=5")
    onward = planner("rank", MOE_8K, *KNOB, *words, *FEW, "--json", *store).document
    costs = [d["plans"][0]["outcome"]["cost_per_on_time_session"] for d in (first, onward)]
    assert costs[1] <= costs[0]


def test_tables_show_the_values_and_what_is_not_proved(planner):
    done = planner("rank", MOE_8K, *KNOB, *FEW, "--store", "none")
    assert "GB/s" in done.out
    assert "best of 10 trials" in done.out
    assert "need not be the" in done.out


def test_nothing_found_is_no_proof(planner):
    late = ("--set", "workload.classes.chat.tpot=1 ms", "--set", "search.method=optuna")
    done = planner("rank", MOE_8K, *late, *FEW, "--store", "none")
    assert done.code == 3
    assert "proves nothing" in done.out


def test_explain_takes_a_sampled_answer(planner):
    sampled = ("--set", "search.method=optuna", *FEW, "--store", "none")
    done = planner("explain", MOE_8K, *sampled, "--plan", "tp=4", "--json")
    assert done.code == 0
    assert json.dumps(done.document)
