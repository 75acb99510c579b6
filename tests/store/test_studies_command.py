"""``planner studies``: list, show, compare, export, delete, gc and migrate, as a user runs them."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa

from planner.studies import rank
from results.store import schema
from specs.load import load_problem, problem_hash
from tests.conftest import Printed
from tests.store.support import EXAMPLE, INPUTS, opened, problem, ranked

Run = Callable[..., Printed]

SOONER = "workload.classes.continue.deadline=125 ms"
ONE = ("workload.classes.continue.sessions=1", "workload.on_time_share=1")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The address of a store, and the id of the only study in it."""
    url = str(tmp_path_factory.mktemp("finished") / "store.db")
    return url, study(url, SOONER)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PLANNER_STORE", str(tmp_path / "store.db"))
    monkeypatch.chdir(tmp_path)
    return str(tmp_path / "store.db")


def study(url: str, *sets: str) -> str:
    with opened(url) as store:
        found = rank(EXAMPLE, sets, store=store).study
    assert found is not None
    return found


def interrupted(url: str) -> str:
    """Leave a study with one chunk, and return its id."""
    with (
        opened(url) as store,
        pytest.raises(KeyboardInterrupt),
        store.study(problem("limits.cards=4"), INPUTS) as begun,
    ):
        begun.store(0, ranked(problem()).found.digest)
        raise KeyboardInterrupt
    return begun.id


def test_list_shows_the_newest_first_and_filters(planner: Run, url: str) -> None:
    first = study(url)
    second = study(url, "name=sooner", SOONER)
    third = interrupted(url)

    def ids(*words: str) -> list[str]:
        document = planner("studies", "list", *words, "--json").document
        assert document["schema"] == "planner/studies/1"
        return [item["id"] for item in document["studies"]]

    assert ids() == [third, second, first]
    assert ids("--state", "done") == [second, first]
    assert ids("--state", "interrupted") == [third]
    assert ids("--name", "SOON") == [second]
    assert ids("--model", "qwen3", "--hardware", "h100", "--limit", "1") == [third]
    assert ids("--model", "%") == ids("--kind", "sweep") == ids("--state", "running") == []
    printed = planner("studies", "list")
    assert printed.code == 0
    assert "tp=2 replicas=4" in printed.out
    assert "interrupted" in printed.out
    assert planner("studies", "list", "--name", "nothing").out.startswith("No such study in ")


def test_show_prints_what_rank_printed(planner: Run, url: str) -> None:
    printed = planner("rank", str(EXAMPLE), "--set", SOONER)
    id = study(url, SOONER)
    shown = planner("studies", "show", id[:8])
    answer = printed.out.splitlines()
    assert shown.out.splitlines()[:3] == answer[:3]
    for words in (id, "numpy 2.", SOONER, "seed", "local", str(EXAMPLE)[-30:]):
        assert words in shown.out
    document = planner("studies", "show", id[:8], "--json").document
    assert document["spec"]["model"]["name"] == "qwen3-32b"
    assert document["result"]["problem_hash"] == document["problem_hash"]
    assert document["inputs"]["sets"] == [SOONER]
    assert document["seconds"] > 0


def test_what_another_process_has_begun_is_shown_as_running(planner: Run, url: str) -> None:
    with (
        opened(url) as store,
        pytest.raises(KeyboardInterrupt),
        store.study(problem(), INPUTS) as begun,
    ):
        begun.store(0, ranked(problem()).found.digest)
        shown = planner("studies", "show", begun.id)
        refused = planner("studies", "delete", begun.id, "--yes")
        raise KeyboardInterrupt
    assert ", running)" in shown.out
    assert "1 chunk is kept" in shown.out
    assert refused.code == 2
    assert "works on it" in refused.err
    assert ", interrupted)" in planner("studies", "show", begun.id).out


def test_export_writes_a_spec_that_gives_the_same_study(planner: Run, url: str) -> None:
    id = study(url, SOONER)
    printed = planner("studies", "export", id[:8], "--json")
    folder = Path("out") / id[:12]
    assert [Path(file).name for file in printed.document["files"]] == sorted(
        (file.name for file in folder.iterdir()),
        key=["spec.yaml", "result.json", "plans.parquet", "report.html"].index,
    )
    assert problem_hash(load_problem(folder / "spec.yaml")) == problem_hash(problem(SOONER))
    result = json.loads((folder / "result.json").read_text())
    assert result["plans"][0]["plan"]["tp"] == 2
    assert len(pd.read_parquet(folder / "plans.parquet")) == result["certificate"]["feasible"]
    assert "<html" in (folder / "report.html").read_text()


def test_delete_removes_all_of_a_study(planner: Run, url: str) -> None:
    id, other = study(url), study(url, SOONER)
    unasked = planner("studies", "delete", id)
    assert (unasked.code, "--yes" in unasked.err) == (2, True)
    assert planner("studies", "delete", id[:8], "--yes", "--json").document["deleted"] == [id]
    assert planner("studies", "show", id).code == 2
    with opened(url) as store:
        assert [file.name[:16] for file in store.tables.files()] == [other[:16]]
        with store.database.reading() as connection:
            assert connection.execute(sa.select(schema.plan.c.study_id)).scalars().all()
            assert id not in connection.execute(sa.select(schema.plan.c.study_id)).scalars()


def test_gc_removes_only_what_nothing_needs(planner: Run, url: str) -> None:
    id = study(url)
    begun = interrupted(url)
    folder = Path(f"{url}.tables")
    old, young, foreign = folder / "old.parquet", folder / "young.parquet.7.part", folder / "mine"
    for file in (old, young, foreign):
        file.write_text("x")
    os.utime(old, (0, 0))
    os.utime(foreign, (0, 0))
    document = planner("studies", "gc", "--dry-run", "--json").document
    assert (document["studies"], document["tables"]) == ([], [str(old)])
    assert old.exists()
    dry = planner("studies", "gc", "--dry-run", "--older-than", "0", "--json").document
    assert (dry["studies"], dry["chunks"], dry["problems"]) == ([begun], 1, 1)
    printed = planner("studies", "gc", "--older-than", "0")
    assert printed.out.startswith("Removed 1 study without an answer, 1 chunk, 1 problem of no")
    assert sorted(file.name for file in folder.iterdir() if file.suffix != ".parquet") == sorted(
        (young.name, foreign.name)
    )
    assert planner("studies", "gc").out == "There is nothing to remove.\n"
    assert planner("studies", "show", id).code == 0


def compared(planner: Run, first: str, second: str) -> dict[str, Any]:
    printed = planner("studies", "compare", first, second, "--json")
    assert printed.code == 0
    return printed.document


def test_compare_names_the_input_that_changes_the_winner(planner: Run, url: str) -> None:
    first = study(url)
    second = study(url, *ONE, "objective.tie_within=0.01")
    document = compared(planner, first, second)
    causes = {cause["path"]: cause for cause in document["causes"]}
    sessions = causes["workload.classes.continue.sessions"]
    assert sessions["sufficient"] and sessions["necessary"]
    assert (sessions["a"], sessions["b"]) == (4, 1)
    # A with one session is what rank says of it.
    swapped = ranked(problem("workload.classes.continue.sessions=1"))
    assert sessions["into_a"]["cost"] == swapped.costs[0]
    assert sessions["into_a"]["plan"] == swapped.document()["plans"][0]["plan"]
    assert not causes["objective.tie_within"]["sufficient"]
    assert causes["objective.tie_within"]["into_a"]["change"] == 0
    assert document["verdict"].startswith("workload.classes.continue.sessions alone makes")
    assert "gives the best plan of B" in planner("studies", "compare", first, second).out


def test_compare_says_when_only_a_combination_does(planner: Run, url: str) -> None:
    """One input takes the best plan away, the other the second; together they leave the third."""
    both = ('space.where=["tp != 4"]', "space.tp=[1, 4, 8]")
    document = compared(planner, study(url), study(url, *both, "objective.tie_within=0.01"))
    assert document["b"]["now"]["plan"]["tp"] == 8
    assert not any(cause["sufficient"] for cause in document["causes"])
    needed = [cause["path"] for cause in document["causes"] if cause["necessary"]]
    assert sorted(needed) == ["space.tp", "space.where"] == sorted(document["together"])
    assert document["verdict"].startswith(
        "No input alone makes the best plan of B the best of A; together these do: space."
    )


def test_compare_groups_another_machine(planner: Run, url: str) -> None:
    document = compared(planner, study(url), study(url, "hardware=hgx-h200"))
    (cause,) = document["causes"]
    assert (cause["path"], cause["a"], cause["b"]) == ("hardware", "hgx-h100", "hgx-h200")
    assert cause["leaves"] > 1
    assert cause["into_a"]["change"] == document["change"] < 0


def test_compare_of_versions_alone(planner: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = study(url)
    monkeypatch.setattr("results.versions.code_fingerprint", lambda: "b" * 64)
    document = compared(planner, first, study(url))
    assert [item["name"] for item in document["versions"]] == ["code"]
    assert document["causes"] == []
    assert document["verdict"] == (
        "The inputs are the same; only versions differ, and they change nothing."
    )


def test_migrate_goes_back_and_the_next_command_forth(planner: Run, url: str) -> None:
    id = study(url)
    assert planner("studies", "migrate", "0001").code == 0
    assert planner("studies", "show", id).code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "zzz"), "ID: no such study (got zzz). Known names: {id}"),
        (("show", "{wrong}"), "no such study (got {wrong}). Did you mean '{id}'?"),
        (("show", ""), "ID: no such study"),
        (("compare", "{id}", "zzz"), "no such study (got zzz)"),
        (("list", "--state", "dune"), "no such state (got dune). Did you mean 'done'?"),
        (("list", "--limit", "0"), "greater than or equal to 1"),
        (("list", "--store", "none"), "holds no studies"),
        (("list", "--store", "absent.db"), "no such store (got absent.db)"),
        (("list", "--store", "mysql://x/y"), "a store is SQLite or PostgreSQL, not mysql"),
        (("gc", "--older-than", "-1"), "greater than or equal to 0"),
        (("export", "{id}", "--out", "file/out"), "--out: cannot make this folder"),
        (("migrate", "7"), "no such revision; known: 0001, 0002 (got 7)"),
    ],
)
def test_wrong_words(
    planner: Run,
    finished: tuple[str, str],
    words: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    url, id = finished
    monkeypatch.setenv("PLANNER_STORE", url)
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("not a folder")
    named = {"id": id[:12], "wrong": ("0" if id[0] != "0" else "1") + id[1:12]}
    printed = planner("studies", *(word.format(**named) for word in words))
    assert printed.code == 2
    assert message.format(**named) in printed.err
    assert "Traceback" not in printed.err
    if words[0] != "migrate":
        faults = planner("studies", *(w.format(**named) for w in words), "--json").document
        assert faults["schema"] == "planner/error/1"
