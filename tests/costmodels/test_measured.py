"""Measured step times: exact where measured, monotone everywhere, and the base where they agree."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels.base import StepEstimate, carried, cost_model
from costmodels.measured import MeasuredModel
from costmodels.measurements.points import points_of
from costmodels.measurements.table import PLAN_AXES, read
from costmodels.plans import FloatArray, PlanTable
from costmodels.roofline import RooflineModel
from costmodels.sessions.steps import Held, decode_span
from specs.errors import SpecError
from specs.load import load_problem
from specs.problem import Problem
from tests.costmodels.support import EXACT, LEAST, NEARLY, Drawn, no_more
from tests.strategies import planned, problem_of

ROOFLINE = RooflineModel()
PROBLEM: Problem = problem_of(cards=8)
DEGREES = (1, 2, 4)
BATCHES, CONTEXTS = (1, 8, 32), (100, 1000, 4000)

Cell = tuple[int, int, int, float]


def decode(model: Any, plans: PlanTable, batch: Any, context: Any) -> StepEstimate:
    size = len(plans)
    loads = np.broadcast_to(batch, size).astype(np.int64), np.broadcast_to(context, size) * 1.0
    return model.decode(PROBLEM, plans, *loads)


def table_of(folder: Path, rows: Sequence[Cell]) -> Path:
    """Write rows of (tp, batch, context, seconds)."""
    file = folder / "table.csv"
    lines = [f"decode,{tp},{batch},{context},{seconds!r}" for tp, batch, context, seconds in rows]
    file.write_text("\n".join(["phase,tp,batch,context,seconds", *lines]))
    return file


def measured(file: Path) -> MeasuredModel:
    cost_model.cache_clear()
    return MeasuredModel(str(file))


def grid(factor: Any = 1.0, degrees: Sequence[int] = DEGREES) -> list[Cell]:
    """Rows whose times are the estimate times a factor of (tp, batch, context)."""
    cells = [(tp, b, c) for tp in degrees for b in BATCHES for c in CONTEXTS]
    tps, batches, contexts = (np.array(column) for column in zip(*cells, strict=True))
    seconds = decode(ROOFLINE, PlanTable.from_columns({"tp": tps}), batches, contexts).seconds
    ratio = factor(tps, batches, contexts) if callable(factor) else factor
    return [(*cell, float(t)) for cell, t in zip(cells, seconds * ratio, strict=True)]


def with_overhead(tp: Any, batch: Any, context: Any) -> FloatArray:
    """A fixed time in every step and a network slower than stated: ratios that fall with load."""
    base = decode(ROOFLINE, PlanTable.from_columns({"tp": tp}), batch, context).seconds
    found: FloatArray = 1.4 + 0.2 * tp / DEGREES[-1] + 2 * base.min() / base
    return found


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> MeasuredModel:
    return measured(table_of(tmp_path_factory.mktemp("slower"), grid(with_overhead)))


def test_exact_where_measured(slower: MeasuredModel) -> None:
    for tp, batch, context, seconds in grid(with_overhead):
        plans = PlanTable.from_columns({"tp": [tp], "replicas": [2]})
        step = decode(slower, plans, batch, context)
        assert step.seconds[0] == pytest.approx(seconds, rel=LEAST)
        assert step.follows[0] == pytest.approx(seconds, rel=LEAST)


loads = st.tuples(st.integers(1, 200), st.integers(0, 20_000))


@settings(max_examples=100)
@given(st.sampled_from((*DEGREES, 8)), loads, loads)
def test_more_never_takes_less(slower: MeasuredModel, tp: int, one: Any, other: Any) -> None:
    """Within the range, across its edges, and beyond them on both sides."""
    plans = PlanTable.from_columns({"tp": [tp]})
    less = decode(slower, plans, *np.minimum(one, other)).seconds
    assert no_more(less, decode(slower, plans, *np.maximum(one, other)).seconds)


noisy_rows = st.lists(
    st.tuples(
        st.just(2), st.sampled_from((1, 4, 9)), st.sampled_from((50, 700)), st.floats(1, 1.1)
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda cell: cell[:3],
)


@settings(max_examples=80)
@given(rows=noisy_rows, one=loads, other=loads)
def test_noisy_and_scattered_rows_are_monotone_too(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Cell], one: Any, other: Any
) -> None:
    at = PlanTable.from_columns({"tp": [2]})
    times = [t * float(decode(ROOFLINE, at, 4, 400).seconds[0]) for *_, t in rows]
    cells = [(*row[:3], seconds) for row, seconds in zip(rows, times, strict=True)]
    model = measured(table_of(tmp_path_factory.mktemp("noisy"), cells))
    less = decode(model, at, *np.minimum(one, other)).seconds
    assert no_more(less, decode(model, at, *np.maximum(one, other)).seconds)
    for _, batch, context, seconds in cells:
        ratio = decode(model, at, batch, context).seconds[0] / seconds
        assert 1 / 1.05 < ratio < 1.05  # moved at most half way to the farthest time


@settings(max_examples=60)
@given(st.lists(st.sampled_from((*DEGREES, 8)), min_size=1, max_size=5), loads)
def test_the_parts_sum_to_the_whole(slower: MeasuredModel, tps: list[int], load: Any) -> None:
    plans = PlanTable.from_columns({"tp": tps})
    step, base = decode(slower, plans, *load), decode(ROOFLINE, plans, *load)
    assert set(step.components) == set(base.components)
    total = sum(step.components.values())
    assert total == pytest.approx(step.seconds, rel=LEAST)
    for name, seconds in base.components.items():
        share = seconds / base.seconds
        assert step.components[name] / step.seconds == pytest.approx(share, rel=EXACT)


def test_a_table_of_estimates_changes_nothing(tmp_path: Path) -> None:
    """At the points, beyond them along an edge, and for plans without rows."""
    model = measured(table_of(tmp_path, grid()))
    plans = PlanTable.from_columns({"tp": [1, 2, 4, 8]})
    for batch, context in [(8, 1000), (32, 4000), (64, 4000), (32, 9000), (1, 100)]:
        same = decode(ROOFLINE, plans, batch, context).seconds
        assert decode(model, plans, batch, context).seconds == pytest.approx(same, rel=EXACT)
    held = np.ones((4, 1))
    memory, usual = (m.memory(PROBLEM, plans, held) for m in (model, ROOFLINE))
    assert memory.bytes.tolist() == usual.bytes.tolist()
    basis = model.basis(PROBLEM, plans, np.full(4, 8), np.full(4, 1000.0))
    assert basis.noise == pytest.approx(np.zeros(4), abs=EXACT)


def test_rows_of_one_row_of_a_table(slower: MeasuredModel) -> None:
    plans = PlanTable.from_columns({"tp": [8, 1, 4, 2, 2], "allreduce": [0, 0, 1, 1, 0]})
    batch, context = np.array([3, 50, 8, 1, 9]), np.array([50.0, 5000, 1000, 100, 700])
    whole = decode(slower, plans, batch, context).seconds
    for row in range(len(plans)):
        alone = decode(slower, plans.take(slice(row, row + 1)), batch[row], context[row])
        assert alone.seconds[0] == whole[row]


def test_the_most_precise_rows_count(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    base = decode(ROOFLINE, PlanTable.from_columns({"tp": [2]}), 8, 1000).seconds[0]
    file.write_text(
        "phase,tp,allreduce,batch,context,seconds\n"
        f"decode,,,8,1000,{4 * base}\n"
        f"decode,2,,8,1000,{2 * base}\n"
        f"decode,2,ring,8,1000,{3 * base}\n"
    )
    plans = PlanTable.from_columns({"tp": [1, 2, 2], "allreduce": [0, 0, 1]})
    factors = decode(measured(file), plans, 8, 1000).seconds / base
    assert factors == pytest.approx([4, 2, 3], rel=EXACT)


def test_plans_without_rows_take_the_middle_ratio(tmp_path: Path) -> None:
    model = measured(table_of(tmp_path, grid(lambda tp, b, c: {1: 2.0, 2: 3.0, 4: 5.0}[4] + 0 * b)))
    file = table_of(tmp_path, grid(lambda tp, b, c: np.select([tp == 1, tp == 2], [2.0, 3.0], 5.0)))
    model = measured(file)
    plans = PlanTable.from_columns({"tp": [8]})
    ratio = decode(model, plans, 8, 1000).seconds / decode(ROOFLINE, plans, 8, 1000).seconds
    assert ratio[0] == pytest.approx(3, rel=EXACT)
    basis = model.basis(PROBLEM, plans, np.array([8]), np.array([1000.0]))
    logs = np.log(np.array([2, 3, 5]) / 3)
    assert basis.noise[0] == pytest.approx(np.sqrt(np.mean(logs**2)))
    assert not basis.inside[0]
    assert basis.sources[basis.source[0]].startswith("roofline at stated efficiencies, times 3")
    assert basis.distance[0] == pytest.approx(np.log(2))


def test_what_a_plan_rests_on(slower: MeasuredModel) -> None:
    plans = PlanTable.from_columns({"tp": [2, 2, 2, 2]})
    batch, context = np.array([8, 16, 64, 8]), np.array([1000.0, 2000, 1000, 50])
    basis = slower.basis(PROBLEM, plans, batch, context)
    assert basis.inside.tolist() == [True, True, False, False]
    assert basis.distance == pytest.approx(
        [0, np.log(2001 / 1001), np.log(65 / 33), np.log(101 / 51)]
    )
    assert [basis.sources[i].endswith("beyond its range") for i in basis.source] == [0, 0, 1, 1]
    assert basis.noise.tolist() == [0, 0, 0, 0]


def test_between_unmeasured_points_is_outside(tmp_path: Path) -> None:
    cells = [c for c in grid(2.0, degrees=(2,)) if c[1:3] != (32, 4000)]
    model = measured(table_of(tmp_path, cells))
    plans = PlanTable.from_columns({"tp": [2, 2]})
    basis = model.basis(PROBLEM, plans, np.array([4, 20]), np.array([500.0, 3000]))
    assert basis.inside.tolist() == [True, False]


def test_noise_of_repetitions(tmp_path: Path) -> None:
    """The pooled deviation of one row over the root of how many a point has."""
    file = tmp_path / "table.csv"
    times = {1: (10.0, 10.4), 8: (20.0, 20.2, 20.1, 19.9)}
    rows = [(b, t, i) for b, several in times.items() for i, t in enumerate(several, 1)]
    lines = [f"decode,2,{b},100,{t},{i}" for b, t, i in rows]
    file.write_text("\n".join(["phase,tp,batch,context,microseconds,repeat", *lines]))
    points, faults = points_of(read(file)[0]["decode"])
    assert not faults
    logs = {b: np.log(several) for b, several in times.items()}
    squares = sum(((x - x.mean()) ** 2).sum() for x in logs.values())
    one = np.sqrt(squares / (len(rows) - len(times)))
    assert points.noise == pytest.approx([one / np.sqrt(2), one / np.sqrt(4)])
    assert points.log == pytest.approx([x.mean() - np.log(1e6) for x in logs.values()])


def test_stated_deviation_is_the_noise(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("phase,batch,context,seconds,stdev\ndecode,1,100,0.02,0.001\n")
    points, _ = points_of(read(file)[0]["decode"])
    assert points.noise == pytest.approx([0.05])


def test_prefill(tmp_path: Path) -> None:
    plans = PlanTable.from_columns({"tp": [2]})
    one, left = np.array([1]), np.array([0.0])

    def seconds(model: Any, tokens: float, prefix: float) -> float:
        return float(
            model.prefill(
                PROBLEM, plans, one, np.array([tokens]), np.array([prefix]), left
            ).seconds[0]
        )

    file = tmp_path / "table.csv"
    lines = [
        f"prefill,2,1,{n},{p},{1.5 * seconds(ROOFLINE, n, p)}"
        for n in (128, 1024)
        for p in (0, 4096)
    ]
    file.write_text("\n".join(["phase,tp,batch,tokens,prefix,seconds", *lines]))
    model = measured(file)
    for tokens, prefix in [(128, 0), (1024, 4096), (2048, 4096)]:
        expected = 1.5 * seconds(ROOFLINE, tokens, prefix)
        assert seconds(model, tokens, prefix) == pytest.approx(expected, rel=EXACT)
    assert seconds(model, 128, 0) < seconds(model, 500, 1000) < seconds(model, 1024, 4096)
    basis = model.basis(PROBLEM, plans, one, np.array([100.0]))
    assert not basis.inside[0]
    assert any("has no decode rows" in note for note in basis.notes)


passes = st.tuples(st.integers(1, 6), st.integers(1, 5000), st.integers(0, 9000))


@settings(max_examples=60)
@given(one=passes, other=passes)
def test_more_never_takes_less_in_prefill(tmp_path_factory: Any, one: Any, other: Any) -> None:
    plans = PlanTable.from_columns({"tp": [2]})

    def seconds(model: Any, load: Any) -> FloatArray:
        batch, tokens, prefix = (np.array([float(value)]) for value in load)
        found: FloatArray = model.prefill(
            PROBLEM, plans, batch.astype(np.int64), tokens, prefix, np.zeros(1)
        ).seconds
        return found

    folder = tmp_path_factory.mktemp("prefill")
    cells = list(product((1, 4), (128, 1024), (0, 4096)))[:-1]  # one corner is not measured
    times = [1e-6 + 1.4 * float(seconds(ROOFLINE, cell)[0]) for cell in cells]
    lines = [",".join(map(str, ("prefill", *c, t))) for c, t in zip(cells, times, strict=True)]
    file = folder / "times.csv"
    file.write_text("\n".join(["phase,batch,tokens,prefix,seconds", *lines]))
    model = measured(file)
    assert no_more(seconds(model, np.minimum(one, other)), seconds(model, np.maximum(one, other)))


def test_small_falls_are_put_right_and_told(tmp_path: Path) -> None:
    cells = [(2, 1, 100, 1e-6), (2, 8, 100, 0.97e-6), (2, 32, 100, 2e-6)]
    model = measured(table_of(tmp_path, cells))
    plans = PlanTable.from_columns({"tp": [2, 2]})
    step = decode(model, plans, [1, 8], 100)
    assert step.seconds == pytest.approx(np.full(2, np.sqrt(0.97) * 1e-6))
    basis = model.basis(PROBLEM, plans, np.array([1, 8]), np.full(2, 100.0))
    (note,) = basis.notes
    assert "row 3 is 3% less than row 2 with no more load" in note
    assert (basis.noise > 0).all()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("", "name the table first"),
        ("base=roofline", "name the table first"),
        ("t.csv,basis=roofline", "Did you mean 'base'"),
        ("t.csv,base=measured:t.csv", "base must be another"),
    ],
)
def test_options(options: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        MeasuredModel(options)


def test_a_table_that_has_changed(tmp_path: Path) -> None:
    file = table_of(tmp_path, grid())
    digest = read(file)[1]
    assert MeasuredModel(f"{file},sha256={digest}").name == "measured"
    with pytest.raises(SpecError, match="has changed"):
        MeasuredModel(f"{file},sha256=000000000000")


def stated_table(folder: Path, problem: Problem, plans: PlanTable, factor: float) -> Path:
    """Write the estimates of plans times a factor, every axis stated."""
    axes = [axis for axis in PLAN_AXES if axis not in ("replicas", "prefill_replicas")]
    words = [plans.row(row) for row in range(len(plans))]
    lines = [",".join(["phase", *axes, "batch", "context", "seconds"])]
    for batch, context in product((2, 6), (50, 600)):
        loads = np.full(len(plans), batch), np.full(len(plans), float(context))
        times = ROOFLINE.decode(problem, plans, *loads).seconds * factor
        for plan, seconds in zip(words, times, strict=True):
            cells = ["" if plan[axis] is None else str(plan[axis]).lower() for axis in axes]
            lines.append(
                ",".join(["decode", *cells, str(batch), str(context), repr(float(seconds))])
            )
    file = folder / "times.csv"
    file.write_text("\n".join(dict.fromkeys(lines)))
    return file


@settings(max_examples=40)
@given(planned(), loads, loads)
def test_laws_of_any_problem(
    tmp_path_factory: pytest.TempPathFactory, drawn: Drawn, one: Any, other: Any
) -> None:
    problem, plans = drawn
    folder = tmp_path_factory.mktemp("any")
    model = measured(stated_table(folder, problem, plans, 1.3))
    model.check(problem)

    def seconds(which: Any, batch: float, context: float) -> FloatArray:
        size = len(plans)
        loads = np.full(size, int(batch)), np.full(size, float(context))
        found: FloatArray = which.decode(problem, plans, *loads).seconds
        return found

    for load in product((2, 6), (50, 600)):
        assert seconds(model, *load) == pytest.approx(1.3 * seconds(ROOFLINE, *load), rel=EXACT)
    less = seconds(model, *np.minimum(one, other))
    assert no_more(less, seconds(model, *np.maximum(one, other)))


def test_sessions_sum_over_the_knots_of_a_table(slower: MeasuredModel) -> None:
    """A session that generates past several measured contexts takes the sum of its steps."""
    plans, batch = PlanTable.from_columns({"tp": [1, 2, 4]}), np.full(3, 5)
    held = Held(np.full(3, 60.0), np.full(3, 60.0), np.ones(3))
    steps = 5000
    span = decode_span(slower, PROBLEM, plans, batch, held, steps)
    each = [decode(slower, plans, 5, 60.0 + step).seconds for step in range(steps)]
    assert span == pytest.approx(np.sum(each, axis=0), rel=NEARLY)


def test_a_calibrated_base_says_what_steps_carry(tmp_path: Path) -> None:
    problem = load_problem("examples/engine/minimax-m2.5-hgx-h100-vllm.yaml")
    plans = PlanTable.from_columns({"tp": [8], "expert_tp": [8]})
    file = table_of(tmp_path, grid())
    model = MeasuredModel(f"{file},base=calibrated")
    known = carried(cost_model("calibrated"), problem, plans)
    assert known[0] < 1
    assert carried(model, problem, plans)[0] == known[0]
