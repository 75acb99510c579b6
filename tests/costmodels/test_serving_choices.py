"""What the choices beside the shape of an instance do to a step, to memory and to sessions."""

from typing import get_args

import numpy as np
import pytest

from costmodels import drafts, sharding
from costmodels.memory import kept_bytes
from costmodels.plans import PlanTable, encode
from costmodels.sessions.handover import handover_seconds
from costmodels.sessions.steps import Held, decode_span, prompt_seconds
from specs.load import load_problem
from specs.precision import KV_RECIPES, RECIPES, KvPrecision, Precision
from specs.problem import Problem
from tests.costmodels.support import EXACT, MODEL, decode, no_more, outcomes, prefill

CHAT = """
model: {model}
hardware: {hardware}
workload:
  kind: steady
  classes: [{{name: chat, context: {context}, prompt: {prompt}, generate: 256}}]
"""


def chat(
    model: str, *sets: str, hardware: str = "hgx-h200", context: int = 8192, prompt: int = 0
) -> Problem:
    text = CHAT.format(model=model, hardware=hardware, context=context, prompt=prompt)
    return load_problem(text, list(sets))


def plans(**axes: object) -> PlanTable:
    columns = {}
    for axis, values in axes.items():
        listed = values if isinstance(values, list) else [values]
        columns[axis] = [encode(axis, value) for value in listed]
    return PlanTable.from_columns(columns)


# Precision


def test_every_word_has_a_recipe() -> None:
    """A spec may say exactly what there are formats for."""
    assert get_args(Precision) == tuple(RECIPES)
    assert get_args(KvPrecision) == tuple(KV_RECIPES)


def test_each_precision_is_estimated_as_a_model_of_its_own() -> None:
    """Rows in several formats come out as if each format were the checkpoint's."""
    names = ["checkpoint", "fp8", "int4", "mxfp8_mxfp4"]
    problem = chat("qwen3-30b-a3b")
    table = plans(tp=2, ep=2, precision=names)
    together = decode(problem, table, 64, 8192)
    held = np.full((len(names), 1), 8.0)
    memory = MODEL.memory(problem, table, held)
    for row, _ in enumerate(names):
        alone = table.take(np.array([row]))
        assert decode(problem, alone, 64, 8192).seconds[0] == together.seconds[row]
        assert MODEL.memory(problem, alone, held[:1]).bytes[0] == memory.bytes[row]
    formats = {
        "attention": {"dtype": "fp8"},
        "experts": {"dtype": "fp8"},
        "ffn": {"dtype": "fp8"},
        "shared_experts": {"dtype": "fp8"},
    }
    raw = problem.model_dump()
    raw["model"]["formats"] |= formats
    own = Problem.model_validate(raw)
    as_fp8 = decode(own, plans(tp=2, ep=2), 64, 8192).seconds[0]
    assert together.seconds[1] == pytest.approx(as_fp8, rel=EXACT)


def test_narrow_weights_take_less_memory_and_time() -> None:
    problem = chat("qwen3-32b")
    table = plans(tp=4, precision=["bf16", "fp8", "nvfp4"])
    weights = MODEL.memory(problem, table, np.ones((3, 1))).components["weights"]
    assert weights[0] > weights[1] > weights[2]
    seconds = decode(problem, table, 8, 8192).seconds
    assert seconds[0] > seconds[1] > seconds[2]


def test_kv_dtype_halves_what_sessions_keep() -> None:
    problem = chat("qwen3-32b")
    table = plans(tp=4, kv_dtype=["bf16", "fp8"])
    kept = MODEL.memory(problem, table, np.ones((2, 1))).components["kv"]
    assert kept[0] == 2 * kept[1]


def test_a_card_without_a_rate_multiplies_in_the_next_wider_format() -> None:
    problem = chat("qwen3-32b", "hardware.card.peak={bf16: 312 TFLOP/s}", "space.precision=[fp8]")
    raw = problem.model_dump()
    raw["model"]["formats"]["ffn"] = {"dtype": "fp8"}
    narrow = Problem.model_validate(raw)
    assert narrow.multiplied_in("ffn") == "bf16"
    assert narrow.compute_peak("ffn") == 312e12


# Drafted tokens


def test_tokens_of_a_step_add_up_the_chances() -> None:
    problem = chat("deepseek-v3", "assumptions.acceptance=[0.8, 0.5]")
    made = drafts.tokens_per_step(problem, plans(mtp=[0, 1, 2, 3]))
    assert made.tolist() == pytest.approx([1.0, 1.8, 2.2, 2.4])


def test_a_draft_costs_more_a_step_and_less_a_token() -> None:
    """At a small batch the weights are read anyway, so verifying tokens is nearly free."""
    problem = chat("deepseek-v3")
    table = plans(attention_dp=8, ep=8, mtp=[0, 1])
    step = decode(problem, table, 8, 8192).seconds
    made = drafts.tokens_per_step(problem, table)
    assert step[1] > step[0]
    assert (step / made)[1] < (step / made)[0]


def test_a_draft_module_is_held_only_where_it_drafts() -> None:
    problem = chat("deepseek-v3")
    table = plans(attention_dp=8, ep=8, mtp=[0, 1])
    memory = MODEL.memory(problem, table, np.ones((2, 1))).components
    assert problem.model.draft is not None
    extra = sharding.draft_weights(
        problem.model, problem.model.draft, table.take(slice(1, 2)), problem.assumptions
    )
    assert memory["weights"][1] - memory["weights"][0] == pytest.approx(
        float(sum(extra.values())[0])
    )
    assert memory["kv"][1] > memory["kv"][0]


def test_a_certain_draft_multiplies_the_tokens() -> None:
    """A session that accepts everything needs half the steps."""
    problem = chat("deepseek-v3", "assumptions.acceptance=[1.0]", "space.mtp=[1]")
    table = plans(attention_dp=8, ep=8, mtp=1, batch=8)
    found = outcomes(problem, table)
    step = decode(problem, table, 8, 8192 + 128).seconds
    assert found.tpot_s[0] == pytest.approx(step[0] / 2)
    assert found.tokens_per_s[0] == pytest.approx(2 * 8 / step[0])


# Chunks of a prompt


def test_chunks_add_up_to_the_prompt() -> None:
    """Passes of 1000 tokens after each other, the last with what is left."""
    problem = chat("qwen3-32b", prompt=4500)
    table = plans(tp=4, prefill_chunk=1000)
    one = np.ones_like(table.tp)
    seconds, follows = prompt_seconds(MODEL, problem, table, one, 4500, 500)
    sizes = [1000, 1000, 1000, 1000, 500]
    held = [500 + 1000 * i for i in range(5)]
    by_hand = sum(
        prefill(problem, table, n, h, remaining=5000 - h - n).seconds[0]
        for n, h in zip(sizes, held, strict=True)
    )
    assert seconds[0] == pytest.approx(by_hand, rel=EXACT)
    assert follows[0] == pytest.approx(by_hand, rel=EXACT)


def test_chunks_of_a_stepped_context_add_up_nearly() -> None:
    problem = chat("deepseek-v4-flash", prompt=65536)
    table = plans(attention_dp=8, ep=8, prefill_chunk=512)
    one = np.full_like(table.tp, 8)
    seconds, _ = prompt_seconds(MODEL, problem, table, one, 65536, 0)
    by_hand = sum(
        prefill(problem, table, 512, 512 * i, 8, 512 * (127 - i)).seconds[0] for i in range(128)
    )
    assert seconds[0] == pytest.approx(by_hand, rel=1e-5)


def test_whole_prompts_by_default() -> None:
    problem = chat("qwen3-32b", prompt=4500)
    table = plans(tp=4, prefill_chunk=[0, 4500, 8192])
    seconds, _ = prompt_seconds(MODEL, problem, table, np.ones_like(table.tp), 4500, 0)
    assert (seconds == prefill(problem, table.take(slice(0, 1)), 4500, 0).seconds[0]).all()


def test_chunks_cost_time_and_save_memory() -> None:
    problem = chat("qwen3-32b", prompt=32768)
    table = plans(tp=4, prefill_chunk=[0, 2048])
    seconds, _ = prompt_seconds(MODEL, problem, table, np.ones_like(table.tp), 32768, 0)
    assert seconds[1] > seconds[0]
    live = MODEL.memory(problem, table, np.ones((2, 1))).components["activations"]
    assert live[1] < live[0]


# Taking turns


def test_two_half_batches_hide_exchanges() -> None:
    """Each pair of layer times counts once, but for the last exchange of the pass."""
    problem = chat("deepseek-v3", "assumptions.count_norms=false", prompt=8192)
    table = plans(attention_dp=8, ep=8, overlap=["none", "two_batch"])
    calm, turned = prefill(problem, table, 8192, 0, 16).seconds
    assert turned < calm
    half = prefill(problem, table.take(slice(0, 1)), 8192, 0, 8)
    assert turned < 2 * half.seconds[0]
    exposed = sum(half.components[name][0] for name in ("dispatch", "combine"))
    assert turned >= 2 * (half.seconds[0] - exposed) * (1 - 1e-9)


def test_weights_are_read_twice_when_halves_take_turns() -> None:
    problem = chat("deepseek-v3", "assumptions.count_norms=false")  # embedding rows are read once
    table = plans(attention_dp=8, ep=8, overlap=["none", "two_batch"])
    read = decode(problem, table, 64, 8192).work["dense_weights_bytes"]
    assert read[1] == pytest.approx(2 * read[0])


def test_one_session_cannot_take_turns() -> None:
    problem = chat("deepseek-v3")
    table = plans(attention_dp=8, ep=8, overlap=["none", "two_batch"])
    seconds = decode(problem, table, 1, 8192).seconds
    assert seconds[0] == seconds[1]


def test_hidden_communication_costs_what_it_exceeds_the_work() -> None:
    exposed, hidden = chat("deepseek-v3"), chat("deepseek-v3", "assumptions.communication=hidden")
    table = plans(attention_dp=8, ep=8)
    shown, saved = (decode(p, table, 64, 8192) for p in (exposed, hidden))
    assert saved.seconds[0] < shown.seconds[0]
    assert saved.work["bytes_sent"][0] == shown.work["bytes_sent"][0]


# Projections and experts that shards deal among them


def test_batch_shards_that_deal_projections_read_less_and_exchange_more() -> None:
    problem = chat("deepseek-v4-pro")
    table = plans(attention_dp=8, ep=8, o_proj_tp=[1, 8], head_tp=[1, 8])
    step = decode(problem, table, 8, 8192)
    assert step.work["dense_weights_bytes"][1] < step.work["dense_weights_bytes"][0]
    assert step.work["bytes_sent"][1] > step.work["bytes_sent"][0]
    assert step.components["o_proj_exchange"][0] == 0 < step.components["o_proj_exchange"][1]
    weights = MODEL.memory(problem, table, np.ones((2, 1))).components["weights"]
    model = problem.model
    output = sum(m.numbers for m in model.matrices if m.projects_output)
    assert weights[0] - weights[1] > 7 / 8 * output
    # The same products, only dealt otherwise.
    assert step.work["flops"][1] == pytest.approx(step.work["flops"][0], rel=1e-3)


def test_copied_shared_experts_are_read_whole() -> None:
    problem = chat("deepseek-v3")
    table = plans(tp=8, ep=8, shared_experts=["dealt", "copied"])
    read = decode(problem, table, 8, 8192).work["shared_experts_bytes"]
    assert read[1] == pytest.approx(8 * read[0], rel=1e-2)  # shards round their scales up


# Prefill instances


def apart(**axes: object) -> tuple[Problem, PlanTable]:
    problem = chat("qwen3-32b", hardware="two-hgx-h100", context=0, prompt=4096)
    return problem, plans(tp=4, **axes)


def test_steps_are_not_stretched_by_prompts_taken_in_elsewhere() -> None:
    problem, table = apart(replicas=2, prefill_replicas=[0, 2], batch=16)
    found = outcomes(problem, table)
    step = decode(problem, table.take(slice(1, 2)), 16, 4096 + 128).seconds[0]
    assert found.tpot_s[1] == pytest.approx(step)
    assert found.tpot_s[0] > step
    billed = found.gpu_seconds * found.sessions_per_s
    assert billed.tolist() == pytest.approx(table.total_cards.tolist())


def test_sessions_start_no_faster_than_prompts_arrive() -> None:
    problem, table = apart(replicas=3, prefill_replicas=1)
    found = outcomes(problem, table)
    pass_ = prefill(problem, table, 4096, 0).seconds[0]
    assert found.sessions_per_s[0] <= 1 / pass_ * (1 + EXACT)


def test_kv_is_moved_over_the_level_that_holds_the_deployment() -> None:
    problem, table = apart(replicas=1, prefill_replicas=[0, 1, 3])
    inner, outer = problem.hardware.levels[0], problem.hardware.levels[1]
    kept = kept_bytes(problem, table, 4096)
    per_card = 4096 * 2 * 64 * 128 * 2 * 8 / 4
    assert kept.tolist() == [per_card] * 3
    (moved,) = handover_seconds(problem, table)
    assert moved[0] == 0
    assert moved[1] == pytest.approx(inner.latency + per_card / inner.bandwidth)
    assert moved[2] == pytest.approx(outer.latency + per_card / outer.bandwidth)


def test_more_prefill_instances_never_deliver_less() -> None:
    problem, table = apart(replicas=1, prefill_replicas=[1, 2, 3])
    rate = outcomes(problem, table).sessions_per_s
    assert no_more(rate[:-1], rate[1:])


# Work that must not be forgotten, nor counted twice


def test_a_short_last_chunk_waits_for_the_full_one_ahead_of_it() -> None:
    """In a pipeline a prompt of one token more takes longer, not a sixth of the time."""
    problem = chat("qwen3-32b", hardware="hgx-h100", prompt=8193)
    table = plans(pp=8, prefill_chunk=[0, 1024, 8192])
    one = np.ones_like(table.tp)
    lengths = [1023, 1024, 1025, 8191, 8192, 8193, 16384, 16385]
    seconds = np.array([prompt_seconds(MODEL, problem, table, one, n, 0)[0] for n in lengths])
    assert (np.diff(seconds, axis=0) > 0).all()


def test_one_prompt_a_shard_cannot_take_turns() -> None:
    problem = chat("deepseek-v3", hardware="two-hgx-h100", prompt=8192)
    table = plans(attention_dp=16, ep=16, overlap=["none", "two_batch"])
    calm, turned = prefill(problem, table, 8192, 0, 16).seconds
    assert turned == calm


def test_both_halves_of_a_batch_are_handed_over() -> None:
    problem = chat("qwen3-32b", hardware="two-hgx-h100")
    table = plans(tp=8, pp=2, overlap=["none", "two_batch"])
    sends = decode(problem, table, 256, 8192).components["pipeline_send"]
    assert sends[1] >= sends[0]


def test_a_closed_loop_with_prefill_instances_obeys_littles_law() -> None:
    spec = CHAT.format(model="qwen3-32b", hardware="two-hgx-h100", context=0, prompt=32000)
    problem = load_problem(spec, ["workload.concurrency=3", "workload.classes[0].generate=16"])
    table = plans(tp=2, replicas=1, prefill_replicas=[0, 1, 4, 7])
    found = outcomes(problem, table)
    assert (found.sessions_per_s * found.span_s <= 3 * (1 + EXACT)).all()


def test_a_burst_with_drafts_ends_no_earlier_than_its_first_tokens() -> None:
    problem = load_problem(
        """
        model: deepseek-v3
        hardware: two-hgx-h100
        workload:
          kind: burst
          classes: [{name: one, sessions: 4, context: 4096, generate: 1}]
        """
    )
    table = plans(attention_dp=16, ep=16, mtp=[0, 1, 3])
    found = outcomes(problem, table)
    assert (found.span_s == found.ttft_s).all()
    assert (np.diff(found.span_s) > 0).all(), "drafting cannot pay for a single token"


def test_every_context_parallel_rank_expands_all_latents() -> None:
    """Latents travel, so each rank makes keys and values of the tokens of all ranks."""
    problem = chat("deepseek-v3", "assumptions.count_norms=false", prompt=8192)
    table = plans(tp=1, cp=[1, 8], ep=[1, 8])
    flops = prefill(problem, table, 8192, 0).work["flops"]
    expand = 2 * 8192 * 512 * 128 * (128 + 128) * 61
    assert flops[1] > flops[0] / 8 + 0.8 * expand * 7 / 8


def test_shared_experts_beside_latent_ones_sum_on_their_own() -> None:
    problem = chat("nemotron-3-super-120b-a12b")
    table = plans(tp=8, ep=8, shared_experts=["dealt", "copied"])
    sent = decode(problem, table, 64, 8192).work["bytes_sent"]
    layers = sum(g.count for g in problem.model.groups if g.ffn.kind == "moe")
    assert sent[0] - sent[1] == pytest.approx(layers * 2 * 7 / 8 * 64 * 4096 * 2)


def test_only_the_last_tokens_of_a_prompt_pass_the_upper_layers() -> None:
    problem = chat("deepseek-v4.1-flash", prompt=65536)
    table = plans(tp=8, ep=8)
    inner = prefill(problem, table, 4096, 8192, remaining=32768)
    last = prefill(problem, table, 4096, 8192)
    assert inner.work["flops"][0] < last.work["flops"][0]
    assert inner.seconds[0] < last.seconds[0]
    # Before the end of the prompt the upper half reads no experts at all.
    assert inner.work["experts_bytes"][0] < 0.6 * last.work["experts_bytes"][0]


def test_prompts_pass_the_draft_module_where_it_drafts() -> None:
    problem = chat("deepseek-v3", prompt=8192)
    seconds = prefill(problem, plans(tp=8, ep=8, mtp=[0, 1, 3]), 8192, 0).seconds
    assert seconds[0] < seconds[1] == seconds[2]


def test_drafts_keep_a_state_for_each_token_to_return_to() -> None:
    problem = chat("qwen3-next-80b-a3b")
    table = plans(tp=8, ep=8, mtp=[0, 3])
    state = decode(problem, table, 64, 8192).work["state_bytes"]
    assert state[1] == pytest.approx(state[0] * 5 / 2)


def test_windows_and_states_are_dealt_over_all_of_tp() -> None:
    """Splitting the history leaves layers alone that keep none of it."""
    problem = chat("qwen3-next-80b-a3b")
    linear = next(k for k in problem.model.kinds if k.attention.kind == "linear")
    table = plans(tp=8, ep=8, kv_split=[1, 4])
    size = sharding.attention_weights(problem.model, linear.attention, table, problem.assumptions)
    assert size["attention"][0] == size["attention"][1]
    windowed = chat("gpt-oss-120b")
    swa = next(k for k in windowed.model.kinds if k.attention.kind == "swa")
    kept = sharding.session_bytes(windowed.model, swa, table, 8192, windowed.assumptions)
    assert kept[0] == kept[1]


def test_all_residual_streams_are_handed_over() -> None:
    four = chat("deepseek-v4-flash", hardware="two-hgx-h100")
    one = chat("deepseek-v4-flash", "model.hyper_connections=0", hardware="two-hgx-h100")
    table = plans(tp=8, ep=8, pp=2)
    sends = [decode(p, table, 4096, 8192).components["pipeline_send"][0] for p in (one, four)]
    latency = one.hardware.levels[-1].latency
    assert latency is not None
    assert sends[1] - latency == pytest.approx(4 * (sends[0] - latency))


@pytest.mark.parametrize("overlap", ["per_operator", "per_kind", "whole_step"])
def test_a_longer_prefix_never_makes_turns_shorter(overlap: str) -> None:
    problem = chat("nemotron-3-super-120b-a12b", f"assumptions.overlap={overlap}", prompt=1000)
    table = plans(tp=8, ep=8, overlap="two_batch")
    seconds = [prefill(problem, table, 1000, n, 4).seconds[0] for n in (0, 4097, 20000, 100000)]
    assert seconds == sorted(seconds)


def test_how_weights_are_read_does_not_change_what_is_held() -> None:
    table = plans(attention_dp=8, ep=8)
    exact, pooled = (
        MODEL.memory(chat("deepseek-v3", f"assumptions.read_shards={rule}"), table, np.ones((1, 1)))
        for rule in ("exact", "pooled")
    )
    assert exact.bytes[0] == pooled.bytes[0]


def test_a_held_context_travels_to_the_prefill_instance() -> None:
    problem = chat("qwen3-32b", hardware="two-hgx-h100", context=100_000, prompt=1000)
    table = plans(tp=8, replicas=1, prefill_replicas=1)
    (moved,) = handover_seconds(problem, table)
    link = problem.hardware.levels[-1]
    assert link.bandwidth
    assert moved[0] > kept_bytes(problem, table, 100_000)[0] / link.bandwidth


def test_many_steps_of_compressed_attention_take_few_evaluations() -> None:
    problem = chat("deepseek-v4-flash", context=32768)
    table = plans(attention_dp=8, ep=8)
    asked = []

    class Counting(type(MODEL)):  # type: ignore[misc]
        def decode(self, *arguments: object) -> object:
            asked.append(1)
            return super().decode(*arguments)

    batch = np.full_like(table.tp, 64)
    held = Held.dealt((32768,) * 64, table.attention_dp)
    seconds = decode_span(Counting(), problem, table, batch, held, 2000)
    assert len(asked) < 100
    by_hand = sum(decode(problem, table, 64, 32768 + i).seconds[0] for i in range(2000))
    assert seconds[0] == pytest.approx(by_hand, rel=1e-4)
