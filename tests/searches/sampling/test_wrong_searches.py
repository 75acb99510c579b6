"""Wrong questions to a sampling search end with one message, before any work."""

import pytest

from planner.studies import check, rank
from specs.errors import SpecError
from tests.examples import MOE_8K

HBM = "hardware.memory.hbm.bandwidth"
RANGE = "{low: 1 TB/s, high: 4 TB/s}"


def variables(path: str, said: str) -> list[str]:
    return [f"search.variables={{{path}: {said}}}"]


@pytest.mark.parametrize(
    "sets, path, says",
    [
        (variables("hardware.memory.hmb.bandwidth", RANGE), "hmb", "Did you mean 'hbm'?"),
        (variables(HBM, "{low: 1 TB, high: 2 TB}"), f"{HBM}.low", "bytes/s"),
        (variables(HBM, "{low: 4 TB/s, high: 1 TB/s}"), HBM, "low must be less than high"),
        (variables(HBM, "{low: 1 TB/s}"), f"{HBM}.high", "needed"),
        (variables(HBM, "{low: 1 TB/s, high: 4 TB/s, choices: [2 TB/s]}"), HBM, "not both"),
        (variables(HBM, "{low: 1 TB/s, high: 4 TB/s, log: true, step: 1 TB/s}"), "step", "log"),
        (variables(HBM, "{low: 1 TB/s, high: 4 TB/s, step: 9 TB/s}"), "step", "at most"),
        (variables(HBM, "{low: -1, high: 4}"), f"{HBM}.low", "greater than 0"),
        (variables(HBM, "{lo: 1, high: 4}"), f"{HBM}.lo", "unknown key"),
        (variables(HBM, "[1 TB/s, 1000 GB/s]"), f"{HBM}.choices", "twice"),
        (variables("limits.cards", "{low: 1, high: 64}"), "limits.cards.high", "must not exceed"),
        (variables("limits.power", "{low: 1 kW, high: 9 kW}"), "limits.power", "is not set"),
        (variables("model", "{low: 1, high: 2}"), "model.low", "expected"),
        (variables("search.seed", "{low: 1, high: 2}"), "search.seed", "is no figure"),
        (variables("hardware", "[hgx-h100, hgx-h2000]"), "hardware.choices[1]", "hgx-h200"),
        ([*variables(HBM, RANGE), "search.method=exhaustive"], "search.method", "one by one"),
        (["search.method=optun"], "search.method", "optuna"),
        (["search.method=optuna", "search.sampler=cmaes"], "search.sampler", "tpe"),
        (["search.method=optuna", "search.sampler=gp"], "search.sampler", "PyTorch"),
        (["search.method=optuna", "search.trials=0"], "search.trials", "at least 1"),
        (["search.method=optuna", "search.start_from=abc"], "search.start_from", "without a store"),
        (["objective=[cost_per_on_time_session, latency]"], "objective.also[0]", "tpot"),
        (["objective=[cost_per_on_time_session, tpot, tpot]"], "objective.also[1]", "twice"),
    ],
)
def test_wrong_searches_are_refused(sets, path, says, monkeypatch):
    monkeypatch.setattr("searches.sampling.samplers.find_spec", lambda name: None)
    with pytest.raises(SpecError) as refused:
        rank(MOE_8K, sets)
    (fault,) = refused.value.faults
    assert path in fault.path
    assert says in str(fault)


def test_a_check_finds_them_too():
    with pytest.raises(SpecError):
        check(MOE_8K, variables(HBM, "{low: 4 TB/s, high: 1 TB/s}"))
