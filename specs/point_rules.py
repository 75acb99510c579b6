"""How a row of a table of measured points is read: each rule by name, and where it applies.

Lengths are in tokens. ``REFUSED`` is raised for a row that is no fault and still tells too little.
"""

from dataclasses import dataclass

from specs import point_names
from specs.point_cells import Cells
from specs.point_names import Machine
from specs.precision import CHECKPOINT

RULES: dict[str, str] = {
    "nominal_lengths": "Lengths that a note calls nominal maxima, or about 0.9 of what is written, "
    "are taken 0.9 times.",
    "attention_dp": "Data parallel ranks of a mixture of experts share an instance (attention DP); "
    "those of a dense model, or where attention DP is said to be off, are replicas.",
    "experts_over_all": "Experts are split (expert TP) over what EP leaves of TP x DP; a blank EP "
    "is 1.",
    "ranks_of_dp": "A blank DP under attention DP is what TP and PP leave of the cards.",
    "unrecorded": "A worker of several cards with TP 1 and EP 1 has a layout that was not "
    "recorded: up to 8 cards are taken as TP, more as attention DP and EP over all of them.",
    "two_drafts": "MTP of unstated length drafts 2 tokens a step.",
    "stated_acceptance": "A stated acceptance is met by equal chances of all drafts.",
    "no_drafts": "Where drafting is not mentioned, there is none.",
    "fp8_kv": "TensorRT-LLM keeps KV in FP8 beside weights in FP8 or FP4.",
    "recipe": "A number format that the checkpoint has is the checkpoint; FP4 is NVFP4 on NVIDIA, "
    "MXFP4 elsewhere.",
    "kv_length": "A row with a KV length and no prompt decodes at that length: nothing is "
    "taken in.",
    "balanced": "Rows marked as forced-balanced have balanced experts.",
    "turns": "Turns of an agent: all of the input but as much as the answer is held already.",
    "decode_pool": "Of a deployment with prefill apart, the decode pool alone is estimated, and "
    "holds the whole prompt.",
    "chips": "A chip of two dies is two cards.",
    "assumed_latency": "Start-up times that the catalogue lacks are assumed.",
    "open_load": "Throughput without a concurrency is that of as many sessions as memory holds.",
}
"""Every rule by name: what it says. A point lists those that changed how it is read."""

DRAFTS = 2
"""Tokens drafted where a table does not say."""
TENSOR_PARALLEL_MOST = 8
"""Cards of a worker that are taken as TP where its layout was not recorded."""
NOMINAL = 0.9
"""Mean length over the nominal one of harnesses that draw lengths at random from 0.8 up."""


class Refused(Exception):
    """A row cannot be estimated; the text says why."""


@dataclass(frozen=True)
class Lengths:
    """Tokens of a session: held before it starts, taken in, and made."""

    context: int
    prompt: int
    generate: int


@dataclass(frozen=True)
class Layout:
    """Parallel degrees of one instance, and how many instances there are."""

    tp: int
    pp: int
    cp: int
    attention_dp: int
    ep: int
    expert_tp: int
    replicas: int

    @property
    def cards(self) -> int:
        """Cards of all instances."""
        return self.tp * self.pp * self.cp * self.attention_dp * self.replicas


def lengths(cells: Cells, mode: str, rules: set[str]) -> Lengths:
    """Return the lengths of a session, on average."""
    note = cells.text("length_note").lower()
    scale = NOMINAL if "nominal maxima" in note or "0.9x" in note else 1.0
    if scale != 1:
        rules.add("nominal_lengths")
    isl, osl, held = (cells.number(c) for c in ("isl", "osl", "context_len"))
    generate = max(round((osl or 1) * scale), 1)
    if held is not None and (isl is None or mode == "disagg decode"):
        rules.add("kv_length")
        return Lengths(round(held), 0, generate)
    if isl is None:
        raise Refused("neither isl nor context_len is stated")
    if osl is None and "decode" not in mode:
        raise Refused("osl is not stated")
    whole = round(isl * scale)
    if mode in ("disagg", "disagg decode"):
        rules.add("decode_pool")
        return Lengths(whole, 0, generate)
    if "multi-turn" in note or "agent" in note:
        rules.add("turns")
        prompt = min(generate, whole)
        return Lengths(whole - prompt, prompt, generate)
    return Lengths(0, whole, generate)


def layout(cells: Cells, mode: str, model: str, machine: Machine, rules: set[str]) -> Layout:
    """Return the layout of the cards that decode."""
    if mode == "disagg":
        return _decode_pool(cells, model, rules)
    tp, pp, cp = cells.count("tp"), cells.count("pp") or 1, cells.count("cp") or 1
    if tp is None:
        raise Refused("tp is not stated")
    if machine.chip != 1:
        rules.add("chips")
    cards = (cells.count("n_gpus") or 0) * machine.chip
    dp = cells.count("dp")
    if dp is None and cells.switch("dp_attention") and cards:
        rules.add("ranks_of_dp")
        dp = max(cards // (tp * pp * cp), 1)
    dp = dp or 1
    if cards and cards != tp * pp * cp * dp:
        raise Refused(f"{cards} cards are not tp x pp x dp = {tp * pp * cp * dp}")
    shared = point_names.model_of(model).is_moe and cells.switch("dp_attention") is not False
    if dp > 1:
        rules.add("attention_dp")
    ranks = dp if shared else 1
    ep, expert_tp = _experts(model, tp * cp * ranks, cells.count("ep"), rules)
    return Layout(tp, pp, cp, ranks, ep, expert_tp, 1 if shared else dp)


def _decode_pool(cells: Cells, model: str, rules: set[str]) -> Layout:
    """Layout of the workers that decode, where prefill is apart."""
    stated = {c: cells.count(c) for c in ("decode_workers", "decode_gpus", "decode_tp")}
    missing = [name for name, value in stated.items() if not value]
    if missing:
        raise Refused(f"{' and '.join(missing)} of the decode pool {_is(missing)} not stated")
    workers, cards, tp = (value or 0 for value in stated.values())
    each, rest = divmod(cards, workers)
    ep = cells.count("decode_ep")
    if cells.switch("decode_dp_attention"):
        if tp == ep == 1 < each:
            rules.add("unrecorded")
            tp, ep = (each, 1) if each <= TENSOR_PARALLEL_MOST else (1, each)
        else:
            tp = 1
    if rest or each % tp:
        raise Refused(f"{cards} cards in {workers} workers are not whole groups of tp {tp}")
    if each > tp and not point_names.model_of(model).is_moe:
        raise Refused(f"a dense model on {each} cards a worker with tp {tp}")
    ep, expert_tp = _experts(model, each, ep, rules)
    return Layout(tp, 1, 1, each // tp, ep, expert_tp, workers)


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _experts(model: str, cards: int, stated: int | None, rules: set[str]) -> tuple[int, int]:
    """EP and expert TP over the cards of a stage."""
    if not point_names.model_of(model).is_moe:
        return 1, 1
    ep = stated or 1
    if cards % ep:
        raise Refused(f"ep {ep} does not divide the {cards} cards of an instance")
    if ep != cards:
        rules.add("experts_over_all")
    return ep, cards // ep


def formats(
    cells: Cells, model: str, vendor: str, engine: str | None, rules: set[str]
) -> tuple[str, str]:
    """Return the recipes of weights and of keys and values."""
    label = cells.text("model_precision")
    weights, kv = point_names.precision(label, model, vendor)
    if label:
        rules.add("recipe")
    low = any(word in label.lower() for word in ("fp8", "fp4"))
    if engine == "tensorrt-llm" and kv == CHECKPOINT and low:
        rules.add("fp8_kv")
        kv = "fp8"
    return weights, kv


def drafts(cells: Cells, model: str, rules: set[str]) -> tuple[int, tuple[float, ...]]:
    """Return drafted tokens, and the chances of acceptance where they are stated."""
    method, accepted = cells.text("spec_method"), cells.number("mtp_acceptance")
    if method != "mtp":
        if not method:
            rules.add("no_drafts")
        return 0, ()
    count = cells.count("mtp_tokens")
    if count is None:
        rules.add("two_drafts")
        count = DRAFTS
    if count and point_names.model_of(model).draft is None:
        raise Refused(f"{model} has no module that drafts tokens in the catalogue")
    if accepted is None or not count:
        return count, ()
    if not 0 < accepted <= count:
        raise Refused(f"{accepted:g} accepted tokens cannot come of {count} drafted")
    rules.add("stated_acceptance")
    return count, (_equal_chance(accepted, count),)


def _equal_chance(accepted: float, count: int) -> float:
    """Chance p with p + p^2 + ... + p^count = accepted."""
    low, high = 0.0, 1.0
    while (middle := (low + high) / 2) not in (low, high):
        if sum(middle**j for j in range(1, count + 1)) < accepted:
            low = middle
        else:
            high = middle
    return high
