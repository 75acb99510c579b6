"""The calibrated cost model: which terms hold for a plan, laws of its times, and what it covers."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels.calibrated import CalibratedModel
from costmodels.calibration.effects import holds, release_of, subject_of, values_for
from costmodels.calibration.terms import SETS, TERMS, apply
from costmodels.plans import PlanTable
from costmodels.roofline import RooflineModel
from specs import paths
from specs.assumptions import PhaseEfficiency, PhaseOverheads, StartUp
from specs.calibration import Subject
from specs.errors import SpecError
from specs.load import load_problem
from specs.problem import Problem
from tests.costmodels.support import Drawn, no_more, period
from tests.searches.calibration.synthetic import (
    CARD,
    ENGINE,
    PRIORS,
    calibration,
    random_terms,
)
from tests.strategies import planned

SPEC: dict[str, Any] = {
    "model": "qwen3-30b-a3b",
    "hardware": "hgx-h200",
    "engine": {"name": "vllm", "version": "0.10.2"},
    "workload": {"kind": "steady", "classes": [{"name": "c", "prompt": 1000, "generate": 200}]},
    "space": {"tp": [1, 2, 4], "mtp": [0]},
    "cost_model": "roofline",
}
PROBLEM = load_problem(SPEC)
PLANS = PlanTable.from_columns({"tp": [1, 2, 4]})
SUBJECT = subject_of(PROBLEM, False)


def batch_of(plans: PlanTable, batch: int) -> np.ndarray:
    return np.full(len(plans), batch)


def seconds(model: Any, problem: Problem, plans: PlanTable, batch: int, context: float) -> Any:
    full = np.full(len(plans), float(context))
    return model.decode(problem, plans, batch_of(plans, batch), full).seconds


def prefilled(model: Any, problem: Problem, plans: PlanTable, number: int, tokens: float) -> Any:
    full = np.full(len(plans), float(tokens))
    nothing = np.zeros(len(plans))
    return model.prefill(problem, plans, batch_of(plans, number), full, nothing).seconds


# Terms as assumptions


def test_apply_sets_every_path() -> None:
    values = random_terms(1)
    found = apply(PROBLEM, values).assumptions.model_dump()
    for name, term in TERMS.items():
        for path in term.paths:
            expected = 1 / values[name] if term.kind == "loss" else values[name]
            assert paths.get(found, path) == pytest.approx(expected), path
    assert (found["overlap"], found["overhead"], found["layer_launch"]) == ("added", 0.0, 0.0)


def test_terms_are_all_that_measured_times_hang_on() -> None:
    """Every share, start-up and overhead is set by exactly one term."""
    set_by = [path for term in TERMS.values() for path in term.paths]
    assert len(set_by) == len(set(set_by))
    known = {"carried", *(f"start_up.{f}" for f in StartUp.model_fields)}
    for phase, (part, spec) in itertools.product(
        ("decode", "prefill"), (("efficiency", PhaseEfficiency), ("overheads", PhaseOverheads))
    ):
        known |= {f"{part}.{phase}.{field}" for field in spec.model_fields}
    # Sequences of a prefill are told by nothing but the pass that takes them in.
    assert known - set(set_by) <= {"overheads.prefill.sequence"}
    assert set(set_by) <= known


def test_apply_leaves_the_rest_of_a_problem_alone() -> None:
    found = apply(PROBLEM, PRIORS)
    same = found.model_copy(update={"assumptions": PROBLEM.assumptions})
    assert same == PROBLEM


def test_no_loss_is_below_one_and_no_time_below_zero() -> None:
    low = apply(PROBLEM, dict.fromkeys(TERMS, 0.5)).assumptions
    assert low.efficiency.decode.memory == 1.0
    known = calibration(effects={Subject(): dict.fromkeys(TERMS, 1e-06)})
    assert all(value >= TERMS[n].least for n, value in values_for(known, SUBJECT).items())


@pytest.mark.parametrize("name", TERMS)
def test_a_larger_term_never_makes_a_pass_shorter(name: str) -> None:
    values = {n: max(v, 1.2) if TERMS[n].kind == "loss" else v for n, v in PRIORS.items()}
    more = values | {name: 2 * values[name]}
    model = RooflineModel()
    for asked in (
        lambda p: seconds(model, p, PLANS, 8, 3000),
        lambda p: prefilled(model, p, PLANS, 2, 900),
    ):
        assert no_more(asked(apply(PROBLEM, values)), asked(apply(PROBLEM, more)))


# Effects


@pytest.mark.parametrize("field", Subject.model_fields)
def test_an_effect_holds_for_its_subject_only(field: str) -> None:
    own = getattr(SUBJECT, field)
    other = (not own) if isinstance(own, bool) else "another"
    assert holds(Subject(), SUBJECT)
    assert holds(Subject(**{field: own}), SUBJECT)
    assert not holds(Subject(**{field: other}), SUBJECT)
    assert holds(SUBJECT, SUBJECT)
    assert not holds(SUBJECT.model_copy(update={field: other}), SUBJECT)


@given(st.lists(st.sampled_from(list(Subject.model_fields)), unique=True))
def test_more_specific_subjects_hold_for_fewer(fields: list[str]) -> None:
    """An effect of more fields holds only where one of fewer does."""
    whole = {name: getattr(SUBJECT, name) for name in fields}
    for name in fields:
        fewer = Subject(**{k: v for k, v in whole.items() if k != name})
        elsewhere = SUBJECT.model_copy(update={name: None})
        assert holds(fewer, elsewhere)
        assert not holds(Subject(**whole), elsewhere) or whole[name] is None


def test_factors_of_all_effects_that_hold_multiply() -> None:
    known = calibration(
        effects={
            Subject(engine=ENGINE): {"decode": 1.5, "decode.layer": 2.0},
            Subject(card=CARD): {"launch": 3.0},
            Subject(engine="sglang"): {"decode": 100.0},
        }
    )
    found = values_for(known, SUBJECT)
    assert found["decode.layer"] == pytest.approx(PRIORS["decode.layer"] * 9.0)
    assert found["decode.step"] == pytest.approx(PRIORS["decode.step"] * 1.5)
    assert found["prefill.step"] == pytest.approx(PRIORS["prefill.step"])


def test_sets_hold_known_terms() -> None:
    assert all(set(terms) <= set(TERMS) and terms for terms in SETS.values())
    assert set(TERMS) <= set(SETS)


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.10.2", "0.10.2"),
        ("v0.5.6.post2", "0.5.6"),
        ("1.3.0rc20", "1.3.0rc20"),
        ("2025-11-04", "2025-11"),
        ("nightly", None),
        (None, None),
    ],
)
def test_versions_belong_to_releases(version: str | None, release: str | None) -> None:
    assert release_of(version) == release


def test_drafting_plans_have_terms_of_their_own() -> None:
    spec = SPEC | {"model": "deepseek-r1", "space": {"tp": [8], "mtp": [0, 1]}}
    problem = load_problem(spec)
    plans = PlanTable.from_columns({"tp": [8, 8, 8], "mtp": [0, 1, 0]})
    plain = CalibratedModel(calibration())
    known = calibration(effects={Subject(drafting=True): {"decode": 2.0}})
    ratio = seconds(CalibratedModel(known), problem, plans, 4, 1000) / seconds(
        plain, problem, plans, 4, 1000
    )
    assert ratio[[0, 2]] == pytest.approx(1.0)
    assert ratio[1] > 1.5


# Laws


def calibrated(drawn: Drawn, seed: int) -> tuple[CalibratedModel, Problem, PlanTable]:
    problem, plans = drawn
    problem = problem.model_copy(update={"engine": PROBLEM.engine})
    pair = (str(SUBJECT.engine), problem.hardware.card.name)
    return CalibratedModel(calibration(random_terms(seed), pairs=(pair,))), problem, plans


@settings(max_examples=60)
@given(planned(most=4), st.integers(0, 20), st.integers(1, 40), st.integers(0, 5000),
       st.integers(1, 500))  # fmt: skip
def test_a_step_grows_with_batch_and_context(
    drawn: Drawn, seed: int, batch: int, context: int, more: int
) -> None:
    model, problem, plans = calibrated(drawn, seed)
    here = seconds(model, problem, plans, batch, context)
    assert no_more(here, seconds(model, problem, plans, batch + more, context))
    longer = context + more * period(problem)
    assert no_more(here, seconds(model, problem, plans, batch, longer))


@settings(max_examples=60)
@given(planned(most=4), st.integers(0, 20), st.integers(1, 8), st.integers(1, 5000),
       st.integers(1, 500))  # fmt: skip
def test_a_prefill_grows_with_tokens_and_sequences(
    drawn: Drawn, seed: int, number: int, tokens: int, more: int
) -> None:
    model, problem, plans = calibrated(drawn, seed)
    here = prefilled(model, problem, plans, number, tokens)
    assert no_more(here, prefilled(model, problem, plans, number, tokens + more))
    assert no_more(here, prefilled(model, problem, plans, number + 1, tokens))


@settings(max_examples=40)
@given(planned(most=4), st.integers(0, 20), st.integers(1, 40), st.integers(0, 5000))
def test_no_pass_is_faster_than_the_roofline(
    drawn: Drawn, seed: int, batch: int, context: int
) -> None:
    """Start-up times may lie below the stated ones; here they do not."""
    problem, plans = drawn
    problem = problem.model_copy(update={"engine": PROBLEM.engine})
    stated = {name: 1.0 for name, term in TERMS.items() if term.kind == "factor"}
    values = random_terms(seed) | stated
    at_peak = apply(problem, {name: term.least for name, term in TERMS.items()} | stated)
    pair = (str(SUBJECT.engine), problem.hardware.card.name)
    model = CalibratedModel(calibration(values, pairs=(pair,)))
    whole = at_peak.assumptions.model_copy(update={"overlap": "whole_step"})
    roofline = at_peak.model_copy(update={"assumptions": whole})
    fastest = seconds(RooflineModel(), roofline, plans, batch, context)
    assert no_more(fastest, seconds(model, problem, plans, batch, context))


# What is covered


@settings(max_examples=40)
@given(planned(most=4), st.sampled_from(["engine", "card", "none"]), st.integers(1, 40))
def test_what_is_not_covered_is_the_roofline_and_says_so(
    drawn: Drawn, lacking: str, batch: int
) -> None:
    problem, plans = drawn
    problem = problem.model_copy(update={"engine": PROBLEM.engine if lacking != "none" else None})
    card = problem.hardware.card.name
    pair = {"engine": ("sglang", card), "card": (ENGINE, "another"), "none": (ENGINE, card)}
    model = CalibratedModel(calibration(random_terms(1), pairs=(pair[lacking],)))
    for found, plain in (
        (seconds(m, problem, plans, batch, 100) for m in (model, RooflineModel())),
        (prefilled(m, problem, plans, 2, 70) for m in (model, RooflineModel())),
    ):
        assert (found == plain).all()
    basis = model.basis(problem, plans, batch_of(plans, batch), np.full(len(plans), 100.0))
    assert not basis.inside.any()
    assert basis.sources[0].startswith("roofline: calibration known does not cover")
    assert "No measurement covers" in basis.notes[0]


def covered(**spans: tuple[float, float]) -> CalibratedModel:
    known = calibration()
    kind = f"{SUBJECT.model}/{SUBJECT.format}"
    (pair,) = known.covered
    pair = pair.model_copy(update={"models": (kind,), **spans})
    return CalibratedModel(known.model_copy(update={"covered": (pair,)}))


def test_a_plan_in_the_data_is_inside() -> None:
    basis = covered().basis(PROBLEM, PLANS, batch_of(PLANS, 8), np.full(3, 500.0))
    assert basis.inside.all()
    assert (basis.distance == 0).all()
    assert basis.notes == ()
    assert "calibration known of 2026-01-01: vllm on H200" in basis.sources[0]


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ({"batch": (16, 64)}, [np.log(2)] * 3),
        ({"context": (100, 250)}, [np.log(2)] * 3),
        ({"cards": (2, 2)}, [np.log(2), 0, np.log(2)]),
        ({"attention_dp": (3, 4)}, [np.log(3)] * 3),
        ({"batch": (16, 64), "context": (100, 125)}, [np.log(4)] * 3),
    ],
)
def test_distance_is_the_logarithm_of_the_largest_factor_outside(
    span: dict[str, tuple[float, float]], expected: list[float]
) -> None:
    basis = covered(**span).basis(PROBLEM, PLANS, batch_of(PLANS, 8), np.full(3, 500.0))
    assert basis.distance == pytest.approx(expected)
    assert basis.inside.tolist() == [e == 0 for e in expected]


def test_outside_the_range_terms_stay() -> None:
    """No plan of one table is a roofline plan: it would beat all that were measured."""
    near, far = covered(), covered(batch=(1, 2), context=(1, 10))
    assert (seconds(near, PROBLEM, PLANS, 64, 5000) == seconds(far, PROBLEM, PLANS, 64, 5000)).all()


def test_a_model_that_was_not_measured_is_flagged_by_name() -> None:
    model = CalibratedModel(calibration())
    basis = model.basis(PROBLEM, PLANS, batch_of(PLANS, 8), np.full(3, 500.0))
    assert not basis.inside.any()
    assert "hold no qwen3-30b-a3b/bf16" in basis.notes[0]


# Files


def raw() -> dict[str, Any]:
    return calibration().model_dump(mode="json", exclude_none=True)


def put(path: str, value: object) -> Any:
    def change(document: dict[str, Any]) -> None:
        here: Any = document
        *parents, last = path.split("/")
        for name in parents:
            here = here[int(name)] if isinstance(here, list) else here[name]
        if value is None:
            del here[last]
        else:
            here[last] = value

    return change


EFFECT = {"of": {"engine": "vllm"}, "factors": {"decode": 1.1}}

WRONG: dict[str, tuple[Any, str, str]] = {
    "a term of another version": (put("terms/decode.speed", {}), "terms.decode.speed", "missing"),
    "an unknown term": (
        put("terms/decode.wieghts", raw()["terms"]["decode.weights"]),
        "terms.decode.wieghts",
        "decode.weights",
    ),
    "a missing term": (put("terms/decode.layer", None), "terms", "decode.layer"),
    "an unknown set": (
        put("effects", [EFFECT | {"factors": {"dens": 1.1}}]),
        "effects[0].factors.dens",
        "dense",
    ),
    "a factor below 0": (
        put("effects", [EFFECT | {"factors": {"dense": -1}}]),
        "effects[0].factors.dense",
        "must be greater than 0",
    ),
    "a subject of nothing": (
        put("effects", [EFFECT | {"of": {"modell": "x"}}]),
        "effects[0].of.modell",
        "model",
    ),
    "a value outside its interval": (
        put("terms/decode.weights/interval", [2.0, 3.0]),
        "",
        "interval must hold the value",
    ),
    "no points": (put("points", 0), "points", "at least 1"),
    "no sources": (put("sources", []), "sources", "must not be empty"),
    "a value that is text": (put("terms/decode.step/value", "fast"), "terms.decode.step.value", ""),
    "a value that is infinite": (put("residual", float("inf")), "residual", "finite"),
    "a range of one": (put("covered/0/batch", [1.0]), "covered[0].batch", ""),
    "no name": (put("name", None), "name", "missing"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_by_its_path(case: str, tmp_path: Path) -> None:
    change, path, message = WRONG[case]
    document = raw()
    change(document)
    file = tmp_path / f"{case.replace(' ', '-')}.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    with pytest.raises(SpecError) as refused:
        CalibratedModel(str(file))
    assert any(f.path.startswith(path) for f in refused.value.faults), refused.value.faults
    assert message in str(refused.value)


def test_a_missing_file_and_an_unknown_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such file"):
        CalibratedModel(str(tmp_path / "none.yaml"))
    with pytest.raises(SpecError, match="no calibration of that name"):
        CalibratedModel("nothing")


def test_a_file_is_read_again_as_it_was_written(tmp_path: Path) -> None:
    known = calibration(random_terms(3), {Subject(engine=ENGINE): {"decode": 1.25}})
    file = tmp_path / "known.yaml"
    file.write_text(yaml.safe_dump(known.model_dump(mode="json", exclude_none=True)))
    assert CalibratedModel(str(file)).calibration == known
