"""A store gives back what was put in, finds it by its content, and computes nothing twice."""

import json
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from results.store import Store, default_url, schema
from results.store.codec import Unreadable, from_bytes, to_bytes
from results.versions import grounds
from searches.executors import executor
from searches.exhaustive import search
from specs.errors import SpecError
from tests.store.support import INPUTS, answer, keep, opened, problem, ranked


def test_an_answer_comes_back_byte_for_byte(store_url: str) -> None:
    asked = problem()
    with opened(store_url) as store:
        id = keep(store, asked)
    with opened(store_url) as store:
        assert keep(store, asked) == id
        assert json.dumps(answer(store, asked)) == json.dumps(ranked(asked).document())


def test_digest_survives_as_bytes() -> None:
    digest = search(problem(), executor("local")).digest
    back = from_bytes(to_bytes(digest))
    np.testing.assert_array_equal(back.rows, digest.rows)
    np.testing.assert_array_equal(back.kept.margins, digest.kept.margins)
    np.testing.assert_array_equal(back.kept.outcomes.cost, digest.kept.outcomes.cost)
    assert back.kept.plans.row(0) == digest.kept.plans.row(0)
    assert back.counts.ranked == digest.counts.ranked
    assert to_bytes(back) == to_bytes(digest)


@pytest.mark.parametrize("cut", [0, 4, 100, -1])
def test_cut_bytes_are_no_digest(cut: int) -> None:
    whole = to_bytes(search(problem(), executor("local")).digest)
    with pytest.raises(Unreadable):
        from_bytes(whole[:cut])


def test_same_content_is_the_same_study_whatever_its_name(store_url: str) -> None:
    with opened(store_url) as store:
        id = keep(store, problem())
        assert keep(store, problem("name=another", "search.executor=processes:2")) == id
        assert keep(store, problem("limits.cards=4")) != id


def test_versions_of_code_and_files_are_part_of_the_question(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(store_url) as store:
        id = keep(store, problem())
        monkeypatch.setattr("results.versions.code_fingerprint", lambda: "changed")
        assert keep(store, problem()) != id


def test_a_named_table_counts_by_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = problem().model_copy(update={"cost_model": "measured:table.csv"})
    row = "phase,tp,batch,context,seconds\ndecode,8,1,131068,"
    Path("table.csv").write_text(f"{row}0.0120\n")
    before = grounds(asked)
    Path("table.csv").write_text(f"{row}0.0121\n")
    assert before["table.csv"] != grounds(asked)["table.csv"]


def test_rows_of_the_best_plans_are_those_of_the_answer(store_url: str) -> None:
    with opened(store_url) as store:
        keep(store, problem())
        with store.database.reading() as connection:
            rows = connection.execute(sa.select(schema.plan).order_by("rank")).all()
    plans = ranked(problem()).document()["plans"]
    assert [row.axes for row in rows] == [item["plan"] for item in plans]
    assert [row.cost for row in rows] == [i["outcome"]["cost_per_on_time_session"] for i in plans]
    assert [row.on_time for row in rows] == [i["outcome"]["on_time"] / 4 for i in plans]


def test_nothing_feasible_is_an_answer_too(store_url: str) -> None:
    asked = problem("workload.classes.continue.deadline=1 ms")
    ranking = ranked(asked)
    ranking.conflict = {"cores": [["on_time"]], "relaxations": [], "sampled": False}
    with opened(store_url) as store:
        with store.study(asked, INPUTS) as study:
            study.finish(ranking.found.digest, ranking.document())
        assert answer(store, asked)["conflict"] == ranking.conflict


def test_finished_chunks_outlive_what_ends_a_study(store_url: str) -> None:
    digest = ranked(problem()).found.digest
    with opened(store_url) as store:
        with pytest.raises(ZeroDivisionError), store.study(problem(), INPUTS) as study:
            study.store(3, digest)
            study.store(3, digest)
            raise ZeroDivisionError
        with store.study(problem(), INPUTS) as study:
            assert not study.done
            assert list(study.known()) == [3]
            assert to_bytes(study.load(3)) == to_bytes(digest)
            with pytest.raises(KeyError):
                study.load(4)
            study.finish(digest, ranked(problem()).document())
            assert not study.known()


@pytest.mark.parametrize(
    ("error", "state", "said"),
    [
        (KeyboardInterrupt(), "interrupted", None),
        (SpecError.single("a.b", 3, "is wrong"), "failed", "a.b: is wrong (got 3)"),
        (RuntimeError("broke"), "failed", "RuntimeError: broke"),
    ],
)
def test_what_ended_a_study_is_noted(
    store_url: str, error: BaseException, state: str, said: str | None
) -> None:
    with opened(store_url) as store:
        with pytest.raises(type(error)), store.study(problem(), INPUTS):
            raise error
        with store.database.reading() as connection:
            row = connection.execute(sa.select(schema.study)).one()
    assert (row.state, row.error, row.owner) == (state, said, None)


def test_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLANNER_STORE", "elsewhere.db")
    assert default_url() == "elsewhere.db"
    monkeypatch.delenv("PLANNER_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    Store.open(default_url()).close()
    assert (tmp_path / "planner/planner.db").is_file()
