"""Wrong specs, and the one message that each must give."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from specs import load_problem
from specs.errors import SpecError

CLASS = ("workload", "classes", 0)

JARGON = re.compile(
    r"Input should|valid (integer|number|string|dictionary)|Extra inputs|Field required|pydantic|"
    r"literal|tuple|Traceback|type=|errors\.|Value error|int_|_type|None|<class"
)

# Each case: its name, what is changed in a good spec, the path of the fault, what it says.
CHANGED = [
    ("unknown model", ("model",), "qwen3-33b", "model", "Did you mean 'qwen3-32b'?"),
    ("unknown hardware", ("hardware",), "hgx-100", "hardware", "Did you mean 'hgx-h100'?"),
    ("model of a wrong type", ("model",), 7, "model", "expected a name, the path of a file or a"),
    ("path out", ("model",), "../../etc/passwd", "model", "a file must end in .yaml"),
    ("path out to YAML", ("model",), "../../x.yaml", "model", "a file must lie in the folder"),
    ("negative", (*CLASS, "context"), -1, "workload.classes[0].context", "must not be negative"),
    ("half a token", (*CLASS, "prompt"), 0.5, "workload.classes[0].prompt", "expected a whole"),
    ("nan", (*CLASS, "deadline"), float("nan"), "workload.classes[0].deadline", "must be finite"),
    ("inf", (*CLASS, "deadline"), float("inf"), "workload.classes[0].deadline", "must be finite"),
    ("huge", (*CLASS, "deadline"), 10**400, "workload.classes[0].deadline", "too large"),
    ("no deadline", (*CLASS, "deadline"), 0, "workload.classes[0].deadline", "greater than 0"),
    ("no unit known", (*CLASS, "ttft"), "3 fortnights", "workload.classes[0].ttft", "no known"),
    ("no sessions", (*CLASS, "sessions"), 0, "workload.classes[0].sessions", "at least 1"),
    ("words", (*CLASS, "sessions"), "four", "workload.classes[0].sessions", "expected a whole n"),
    ("true", (*CLASS, "sessions"), True, "workload.classes[0].sessions", "expected a whole n"),
    ("missing", (*CLASS, "generate"), ..., "workload.classes[0].generate", "missing"),
    ("empty name", (*CLASS, "name"), "", "workload.classes[0].name", "must not be empty"),
    ("number as name", (*CLASS, "name"), 5, "workload.classes[0].name", "expected text"),
    ("key of a class", (*CLASS, "deadlin"), 1, "workload.classes[0].deadlin", "'deadline'?"),
    ("class is text", CLASS, "x", "workload.classes[0]", "expected a mapping of keys to values"),
    ("no classes", ("workload", "classes"), [], "workload.classes", "must not be empty"),
    ("classes by name", ("workload", "classes"), {"a": 1}, "workload.classes", "expected a list"),
    ("workload null", ("workload",), None, "workload", "expected a name, the path"),
    ("kind", ("workload", "kind"), "brust", "workload.kind", "Did you mean 'burst'?"),
    ("share", ("workload", "on_time_share"), "120 %", "workload.on_time_share", "at most 1"),
    ("degree 0", ("space", "tp"), [0, 1], "space.tp[0]", "must be at least 1"),
    ("one degree 0", ("space", "tp"), 0, "space.tp", "must be at least 1"),
    ("degree 1.5", ("space", "tp"), [1.5], "space.tp[0]", "expected a whole number"),
    ("degree 4.0", ("space", "tp"), 4.0, "space.tp", "expected a whole number, a list of them"),
    ("no degrees", ("space", "tp"), [], "space.tp", "must not be empty"),
    ("opne", ("space", "tp"), "opne", "space.tp", "or 'open' (got opne). Did you mean 'open'?"),
    ("algorithm", ("space", "allreduce"), "rng", "space.allreduce", "Did you mean 'ring'?"),
    ("algorithms", ("space", "allreduce"), ["rng"], "space.allreduce[0]", "recursive or swing"),
    ("switch", ("space", "sp"), ["x"], "space.sp[0]", "expected true or false"),
    ("axis", ("space", "ttp"), [1], "space.ttp", "unknown key. Did you mean 'tp'?"),
    ("rules", ("space", "where"), "tp < 3", "space.where", "expected a list"),
    ("root key", ("limit",), {}, "limit", "unknown key. Did you mean 'limits'?"),
    ("nested key", ("assumptions", "overlp"), 1, "assumptions.overlp", "'overlap'?"),
    ("word", ("assumptions", "overlap"), "some", "assumptions.overlap", "whole_step or added"),
    ("overhead", ("assumptions", "overhead"), "abc", "assumptions.overhead", "in seconds"),
    ("band", ("assumptions", "overhead"), [{"upto": 1, "seconds": 1}],
     "assumptions.overhead[0].upto", "Did you mean 'up_to'?"),
    ("bands", ("assumptions", "overhead"), [], "assumptions.overhead", "must not be empty"),
    ("cards", ("limits", "cards"), 9, "limits.cards", "must not exceed the 8 cards of hgx-h100"),
    ("limits null", ("limits",), None, "limits", "expected a mapping of keys to values"),
    ("objectives", ("objective",), [1], "objective", "expected cost_per_on_time_session"),
    ("money", ("objective", "currency"), "money", "hardware.card.price", "needed to count money"),
    ("too long", (*CLASS, "context"), 200_000, "workload.classes.continue", "131072 tokens"),
    ("failed card", ("workload", "failures"), [{"card": 9, "at": 1, "stall": 1}],
     "workload.failures", "card must be one of 0 to 7"),
    ("engine", ("engine",), "vlm", "engine", "Did you mean 'vllm'?"),
    ("engine list", ("engine",), ["vllm"], "engine", "expected a name or a mapping"),
    ("engine key", ("engine",), {"name": "vllm", "verson": "1"}, "engine.verson", "'version'"),
    ("engine name", ("engine",), {"version": "1"}, "engine.name", "expected the name"),
    ("engine version", ("engine",), {"name": "vllm", "version": 0.1}, "engine.version", "quotes"),
    ("engine option", ("engine",), {"name": "vllm", "options": {"gpu_memory_utilisation": 0.9}},
     "engine.options.gpu_memory_utilisation", "Did you mean 'gpu_memory_utilization'?"),
    ("engine share", ("engine",), {"name": "vllm", "options": {"gpu_memory_utilization": 1.1}},
     "engine.options.gpu_memory_utilization", "must be at most 1"),
    ("engine twice", ("engine",), {"name": "vllm", "options": {"share": 0.9, "block_size": 16,
     "block": 16}}, "engine.options.block", "says the same as block_size"),
    ("engine options", ("engine",), {"name": "vllm", "options": 1}, "engine.options", "names and"),
    ("engine length", ("engine",), {"name": "vllm", "options": {"max_model_len": 1024}},
     "workload.classes.continue", "max_model_len of 1024 tokens"),
    ("fleet", ("fleet",), {"pools": [], "demands": [{"name": "a", "generate": 1, "rate": 1}]},
     "fleet.pools", "must not be empty"),
    ("uncertain", ("uncertainty",), {"a": 1}, "uncertainty.a", "expected a mapping"),
    ("variables", ("search", "variables"), {"a": 1}, "search.variables.a", "expected a mapping"),
    ("trials", ("search", "trials"), 0, "search.trials", "must be at least 1"),
    ("base", ("hardware",), {"base": "hgx-h10"}, "hardware", "Did you mean 'hgx-h100'?"),
    ("no base", ("hardware",), {"overrides": {}}, "hardware.base", "expected a name"),
    ("beside base", ("hardware",), {"base": "hgx-h100", "overides": {}}, "hardware.overides",
     "Did you mean 'overrides'?"),
    ("override", ("hardware",), {"base": "hgx-h100", "overrides": {"memory.hbm.bandwith": 1}},
     "hardware.memory.hbm.bandwith", "Did you mean 'bandwidth'?"),
]  # fmt: skip

SETS = [
    ("hardware.memory.hbm.capacity=80 GB/s", "hardware.memory.hbm.capacity", "unit of bytes/s"),
    ("hardware.memory.hbm.bandwith=3 TB/s", "hardware.memory.hbm.bandwith", "'bandwidth'?"),
    ("hardware.card.peak.bf17=3", "hardware.card.peak.bf17", "Did you mean 'bf16'?"),
    ("hardware.card.peak={bf17: 3}", "hardware.card.peak.bf17", "Did you mean 'bf16'?"),
    ("hardware.card.peak={bf17: fast}", "hardware.card.peak.bf17", "Did you mean 'bf16'?"),
    ("hardware.levels[0].topology={kind: switch, oversubscription: 4}",
     "hardware.levels[0].topology", "oversubscription needs the radix of a chip"),
    ("hardware.memory.host.cards=16", "hardware",
     "memory.host.cards must not exceed the 8 cards of hgx-h100, got 16"),
    ("limits.racks=1", "hardware.facility.rack", "rack: needed to count racks"),
    ("hardware.levels[0].size=x", "hardware.levels[0].size", "expected a whole number"),
    ("model.layers[0].ffn.kind=dnse", "model.layers[0].ffn.kind", "Did you mean 'dense'?"),
    ("model.layers[0].ffn={}", "model.layers[0].ffn.kind", "missing"),
    ("model.layers[0].ffn=3", "model.layers[0].ffn", "expected a mapping"),
    ("model.layers[0].ffn={kind: moe, experts: 4, topk: 2, intermediate: 5}",
     "model.layers[0].ffn.topk", "unknown key. Did you mean 'top_k'?"),
    ("model.layers[0].ffn={kind: moe, experts: 4, top_k: 8, intermediate: 5}",
     "model.layers[0].ffn", "top_k must not exceed experts, got 8 of 4 experts"),
    ("model.layers[0].attention.kv_heads=7", "model.layers[0].attention", "multiple of kv_heads"),
    ("model.formats.kv.dtype=fp9", "model.formats.kv.dtype", "Did you mean 'fp8'?"),
    ("model.formats.attention.block=[128]", "model.formats.attention.block[1]", "missing"),
    ("hardware.card.peak={fp8: 1 PFLOP/s}", "hardware.card.peak.bf16",
     "needed for the attention of qwen3-32b, and hgx-h100 has none; known: fp8"),
    ("model.formats.kv.compute=fp32", "hardware.card.peak.fp32", "needed for the kv of qwen3-32b"),
    ("workload.classes.contniue.deadline=1 s", "workload.classes.contniue", "'continue'?"),
    ("workload.classes[4].sessions=1", "workload.classes[4]", "workload.classes has 1"),
    ("workload.classes[0].sessions=1000000000", "workload", "at most 10000 sessions"),
    ("hardware.cards=1000000000", "hardware.cards", "at most 100000"),
    ("assumptions.overhead=[{up_to: 8, seconds: 1 ms}]", "assumptions", "the last must leave it"),
    ("space.ttp=[1]", "space.ttp", "Did you mean 'tp'?"),
    ("spcae.tp=[1]", "spcae", "Did you mean 'space'?"),
    ("limits.cards.x=1", "limits.cards.x", "limits.cards holds no further keys"),
    ("space.tp", "", "expected PATH=VALUE (got space.tp)"),
    ("=3", "", "expected PATH=VALUE"),
    ("space..tp=3", "space..tp", "not a path"),
    ("space.tp=[1,", "space.tp", "not valid YAML"),
    ("engine=vllm", "assumptions.activations", "must be left out with an engine"),
    ("hardware=hgx-h1000", "hardware", "Did you mean 'hgx-h100'?"),
]  # fmt: skip


def assert_one_fault(error: SpecError, path: str, says: str) -> None:
    (fault,) = error.faults
    assert fault.path == path
    assert says in str(fault)
    assert not JARGON.search(str(fault)), str(fault)
    assert "\n" not in str(fault) and len(str(fault)) < 300


@pytest.mark.parametrize(
    ("way", "value", "path", "says"), [case[1:] for case in CHANGED], ids=[c[0] for c in CHANGED]
)
def test_wrong_value(
    changed: Callable[..., dict[str, Any]],
    way: tuple[str | int, ...],
    value: object,
    path: str,
    says: str,
) -> None:
    with pytest.raises(SpecError) as caught:
        load_problem(changed((way, value)))
    assert_one_fault(caught.value, path, says)


@pytest.mark.parametrize(("text", "path", "says"), SETS, ids=[s[0] for s in SETS])
def test_wrong_set(raw: dict[str, Any], text: str, path: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_problem(raw, [text])
    assert_one_fault(caught.value, path, says)


def test_a_misspelt_root_key_is_not_also_missing(changed: Callable[..., dict[str, Any]]) -> None:
    raw = changed((("model",), ...), (("modle",), "qwen3-32b"))
    with pytest.raises(SpecError) as caught:
        load_problem(raw)
    assert_one_fault(caught.value, "modle", "unknown key. Did you mean 'model'?")


def test_equal_class_names(changed: Callable[..., dict[str, Any]], raw: dict[str, Any]) -> None:
    twice = [raw["workload"]["classes"][0]] * 2
    with pytest.raises(SpecError) as caught:
        load_problem(changed((("workload", "classes"), twice)))
    assert_one_fault(caught.value, "workload", "class names must differ")


def test_equal_level_names(raw: dict[str, Any]) -> None:
    level = {"name": "a", "size": 4, "bandwidth": 1, "latency": 0}
    raw["hardware"] = {
        "base": "hgx-h100",
        "overrides": {"levels": [level, {**level, "size": 8}]},
    }
    with pytest.raises(SpecError) as caught:
        load_problem(raw)
    assert_one_fault(caught.value, "hardware", "level names must differ")


def test_empty_workload_lacks_two_things(changed: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(SpecError) as caught:
        load_problem(changed((("workload",), {})))
    assert [str(f) for f in caught.value.faults] == [
        "workload.kind: missing",
        "workload.classes: missing",
    ]


def test_keys_of_a_mapping_are_text(raw: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="keys must be text"):
        load_problem({1: 2, **raw})  # type: ignore[dict-item]


def test_many_faults_are_counted(changed: Callable[..., dict[str, Any]]) -> None:
    classes = [{"name": f"c{i}", "generate": 0} for i in range(60)]
    with pytest.raises(SpecError) as caught:
        load_problem(changed((("workload", "classes"), classes)))
    assert len(caught.value.faults) == 51
    assert str(caught.value.faults[-1]) == "10 more faults of this kind are not shown"


@pytest.mark.parametrize("change", ["space.role=both", "space.prefill=[1]", "space.decode=[1]"])
def test_a_word_for_later_is_not_called_unknown(change: str) -> None:
    with pytest.raises(SpecError, match=r"not available in this version$"):
        load_problem("examples/qwen3-32b-128k-hgx-h100.yaml", [change])


def test_a_machine_may_leave_out_links_that_no_plan_needs(raw: dict[str, Any]) -> None:
    """A missing figure is asked for by name, and only where plans could need it."""
    missing = "hardware.levels[0].latency=null"
    with pytest.raises(SpecError, match=r"levels\.nvlink\.latency: needed where more cards than 1"):
        load_problem(raw, [missing])
    assert load_problem(raw, [missing, "limits.cards=1"]).hardware.levels[0].latency is None
    alone = ["space.tp=[1]", "space.pp=[1]"]
    assert load_problem(raw, [missing, *alone]).hardware.levels[0].latency is None
