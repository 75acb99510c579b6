"""What the first pass of an engine takes, counted by hand from the shapes that its kernels hold."""

from typing import Any

import pytest

from costmodels.engine_memory import limits
from costmodels.plans import PlanTable
from costmodels.trial_pass import activations, graphs
from specs.load import load_problem
from specs.problem import Problem

GIB, MIB = 2.0**30, 2.0**20
TOKENS = 16384
V4 = "deepseek-v4-flash"
TWO = PlanTable.from_columns({"tp": [2], "ep": [2]})


def served(model: str = V4, **options: Any) -> Problem:
    given = {"max_batched_tokens": TOKENS, "max_sequences": 1024, "max_model_len": 30000}
    return load_problem(
        {
            "model": model,
            "hardware": "hgx-h100",
            "workload": {
                "kind": "steady",
                "classes": [{"name": "one", "context": 500, "generate": 1}],
            },
            "engine": {"name": "vllm", "options": {**given, **options}},
        }
    )


def taken(problem: Problem, plans: PlanTable = TWO) -> tuple[float, float]:
    """Bytes of activations and of graphs."""
    engine = problem.engine
    assert engine is not None
    most = limits(problem, engine)
    return (
        float(activations(problem, engine, plans, most)[0]),
        float(graphs(problem, engine, plans, most)[0]),
    )


def test_a_pass_of_deepseek_v4() -> None:
    live = {
        "two copies of four streams and one vector": 2 * (4 + 1) * 4096 * 2,
        "queries and outputs of 64 heads": 2 * 64 * 512 * 2,
        "low-rank queries and keys, also normalised": 2 * (1024 + 512) * 2,
        "what both compressors computed, and weights of index heads": (2048 + 512 + 64) * 4,
        "queries of the indexer, in BF16 and FP8": 64 * 128 * (2 + 1),
    }
    kept = {
        "streams for a draft": 4 * 4096 * 2,
        "rows of six experts, gate, up and output": 6 * (2 * 2048 + 4096) * 2,
    }
    positions = 2 * 2**20 * 64 * 4
    expected = TOKENS * sum([*live.values(), *kept.values()]) + 512 * MIB + positions
    assert taken(served())[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("tp", [4, 8])
def test_padded_heads_take_as_much_on_more_cards(tp: int) -> None:
    many = PlanTable.from_columns({"tp": [tp], "ep": [tp]})
    assert taken(served(), many)[0] == taken(served())[0]
    engine = served().engine
    assert engine is not None and engine.memory.hyper_pass is not None
    single = engine.memory.hyper_pass.model_dump() | {"head_multiple": 1}
    unpadded = served(hyper_pass=single)
    assert taken(unpadded, many)[0] < taken(unpadded)[0]


def test_long_sessions_need_a_larger_buffer() -> None:
    # The entries of four sessions, one for four tokens, outgrow what experts need of the buffer.
    short, longer = (
        taken(served(max_model_len=length, max_batched_tokens=512))[0] for length in (512, 2**20)
    )
    entries, rows = 4 * (2**18 + 128 + 512) * 512 * 2, 512 * 6 * 8192 * 2
    assert longer - short == pytest.approx(entries - rows)


def test_graphs_of_deepseek_v4() -> None:
    each = 1.02 * MIB * 43
    assert taken(served())[1] == pytest.approx(0.33 * GIB + (51 + 51) * each)
    few = taken(served(max_sequences=4, max_cudagraph_capture_size=8))
    assert few[1] == pytest.approx(0.33 * GIB + (4 + 3) * each)


def test_other_models_have_the_common_terms() -> None:
    problem = served("qwen3-32b")
    without = served("qwen3-32b", hyper_pass=None)
    assert taken(problem) == taken(without)
    assert taken(problem)[1] == pytest.approx(0.1 * GIB + 51 * 64 * 0.3 * MIB)
