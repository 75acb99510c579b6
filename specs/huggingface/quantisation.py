"""From a quantisation in any of its dialects to number formats by class of tensor.

A dialect turns a ``quantization_config`` into :class:`Rules`: which module has which format. The
rules are then asked for every large matrix of the model, and each class gets the format that most
of its numbers have. To add a dialect, write a function and enter it in :data:`DIALECTS`.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from specs.errors import SpecError, nearest
from specs.ffn import MoeFfn
from specs.formats import Format, Formats, KvFormat
from specs.huggingface import modules, schemes
from specs.huggingface.architectures import Stack
from specs.huggingface.fields import Fields
from specs.huggingface.matching import Modules, Pattern, runs

_DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "auto": "bf16",
}
_WORTH_A_NOTE = 0.005
"""Share of a class that may have another format without a note."""

_HEAD = ("lm_head", "head", "language_model.lm_head", "model.lm_head")


@dataclass
class Rules:
    """Which format each module has.

    ``default``   of matrices that no list leaves out
    ``excluded``  modules that stay as they are
    ``named``     formats of modules named one by one; these go before everything else
    ``targets``   groups of modules by pattern, each with its format
    ``experts``   of routed experts, where it is not the default
    ``head``      whether the output projection is covered, too
    """

    default: Format | None = None
    excluded: Modules = field(default_factory=Modules)
    named: dict[str, Format] = field(default_factory=dict)
    targets: list[tuple[Modules, Format]] = field(default_factory=list)
    experts: Format | None = None
    head: bool = False
    kv: KvFormat | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All names that the rules mention."""
        return "\n".join([self.excluded.text, *self.named, *(t.text for t, _ in self.targets)])

    def of(self, names: tuple[str, ...], tensor: str) -> Format | None:
        """Return the format of a module under any of its ``names``; ``None`` if it stays."""
        if self.named:
            for name in names:
                for run in runs(name):
                    if run in self.named:
                        return self.named[run]
        if self.excluded and any(self.excluded.holds(name) for name in names):
            return None
        for target, chosen in self.targets:
            if any(target.holds(name) for name in names):
                return chosen
        if tensor == "head" and not self.head:
            return None
        return self.experts if tensor == "experts" and self.experts else self.default


Dialect = Callable[[Fields], Rules]


def _block_fp8(q: Fields) -> Rules:
    """FP8 in blocks, or with one scale a tensor."""
    block = q.numbers("weight_block_size", length=2)
    scale = "e8m0" if q.word("scale_fmt") == "ue8m0" else "fp32"
    shape: dict[str, Any] = {"dtype": "fp8"}
    if block and min(block[:2]) >= 1:
        shape |= {"block": (block[0], block[1]), "scale": scale}
    rules = Rules(
        Format(**shape),
        _modules(q, "modules_to_not_convert", "ignored_layers"),
        kv=schemes.kv_cache(q),
    )
    # An exporter may quantise modules further and leave the rest in blocks.
    _name(q, rules)
    return rules


def _fbgemm(q: Fields) -> Rules:
    """FP8 with one scale a row."""
    return Rules(Format(dtype="fp8"), _modules(q, "modules_to_not_convert"))


def _mxfp4(q: Fields) -> Rules:
    """MXFP4 weights of routed experts; activations stay as they are."""
    chosen = schemes.ALGORITHMS["W4A16_MXFP4"]
    return Rules(excluded=_modules(q, "modules_to_not_convert"), experts=chosen)


def _compressed(q: Fields) -> Rules:
    """Groups of compressed-tensors, each with its targets."""
    rules = Rules(excluded=_modules(q, "ignore"), kv=schemes.kv_cache(q), head=True)
    _groups(q, rules)
    return rules


def _groups(q: Fields, rules: Rules) -> None:
    listed = q.section("config_groups")
    if listed is None:
        q.fault("config_groups", "missing, expected a mapping of groups")
        return
    for name in listed.values:
        group = listed.section(name)
        if group is None:
            continue
        chosen = schemes.by_weights(group)
        if chosen is None:
            continue
        targets = group.words("targets") or ["Linear"]
        if "Linear" in targets:
            rules.default = chosen
        else:
            rules.targets.append((_made(group, "targets", targets), chosen))


def _modelopt(q: Fields) -> Rules:
    """One algorithm for all, or one for each module named."""
    rules = Rules(excluded=_modules(q, "exclude_modules", "ignore"), kv=schemes.kv_cache(q))
    if q.word("quant_algo").upper() == "MIXED_PRECISION":
        if not q.has("quantized_layers"):
            _groups(q, rules)
        _name(q, rules)
    else:
        rules.default = schemes.by_algorithm(q)
    return rules


def _name(q: Fields, rules: Rules) -> None:
    """Add the modules that are listed one by one with an algorithm each."""
    listed = q.section("quantized_layers")
    if listed is None:
        return
    made: dict[tuple[str, int], Format | None] = {}
    for name in listed.values:
        one = listed.section(name)
        if one is None:
            continue
        key = (one.word("quant_algo"), one.count("group_size", default=0, least=0))
        if key not in made:
            made[key] = schemes.by_algorithm(one)
        chosen = made[key]
        if chosen:
            rules.named[name] = chosen


def _integers(q: Fields) -> Rules:
    """GPTQ, AWQ and AutoRound: integer weights in groups, activations as they are."""
    bits = q.count("bits", "w_bit", "wbits", default=4)
    if bits not in (4, 8):
        q.fault("bits", "expected 4 or 8")
        bits = 4
    size = q.values.get("group_size", q.values.get("q_group_size", 128))
    if type(size) is not int or (size < 1 and size != -1):
        q.fault("group_size", "expected a whole number of at least 1, or -1 for one group")
        size = -1
    shape: dict[str, Any] = {"dtype": f"int{bits}", "compute": "bf16"}
    if size > 0:
        shape |= {"group": size, "scale": "fp16"}
    rules = Rules(Format(**shape), _modules(q, "modules_to_not_convert"), head=q.switch("lm_head"))
    if q.switch("zero_point") or (q.has("sym") and not q.switch("sym")):
        rules.notes.append("Zero points of the groups are not counted (half a byte a group).")
    return rules


def _bits_and_bytes(q: Fields) -> Rules:
    """Weights of four or eight bits that are widened before they multiply."""
    excluded = _modules(q, "llm_int8_skip_modules", "modules_to_not_convert")
    if q.switch("load_in_4bit", "_load_in_4bit"):
        double = q.switch("bnb_4bit_use_double_quant")
        scale = "fp8" if double else "fp32"
        four = Format.model_validate(
            {"dtype": "int4", "group": 64, "scale": scale, "compute": "bf16"}
        )
        return Rules(four, excluded)
    return Rules(Format(dtype="int8"), excluded)


DIALECTS: dict[str, Dialect] = {
    "fp8": _block_fp8,
    "fbgemm_fp8": _fbgemm,
    "mxfp4": _mxfp4,
    "compressed-tensors": _compressed,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_mixed": _modelopt,
    "gptq": _integers,
    "awq": _integers,
    "auto-round": _integers,
    "bitsandbytes": _bits_and_bytes,
}
"""What ``quant_method`` may say."""


def rules_of(top: Fields, text: Fields, beside: dict[str, Any] | None) -> Rules:
    """Return the rules of a model.

    ``beside``: what ``hf_quant_config.json`` holds; it goes before a ModelOpt quantisation in the
    configuration, and adds to one of another dialect.
    """
    names = ("quantization_config", "compression_config")
    stated = top.section(*names) or (text.section(*names) if text is not top else None)
    rules = Rules()
    if stated is not None:
        method = stated.word("quant_method").lower().replace("_tensors", "-tensors")
        if not method and (stated.has("quant_algo") or stated.has("config_groups")):
            method = "modelopt" if stated.has("quant_algo") else "compressed-tensors"
        dialect = DIALECTS.get(method)
        if dialect is None:
            hint = nearest(method[:80], DIALECTS) if method else f"One of {', '.join(DIALECTS)}"
            stated.fault("quant_method", "this quantisation is not known", hint)
            return rules
        rules = dialect(stated)
    if "fp4" in (f.word("expert_dtype") for f in (text, top, stated) if f is not None):
        rules.experts = schemes.ALGORITHMS["W4A8_MXFP4_FP8"]
    if beside is not None:
        whole = Fields(beside, "hf_quant_config", top.asked, top.faults)
        extra = _modelopt(whole.section("quantization") or whole)
        if stated is None or not rules.default or stated.has("quant_algo"):
            extra.default = extra.default or rules.default
            extra.experts = extra.experts or rules.experts
            extra.kv = extra.kv or rules.kv
            extra.named = {**rules.named, **extra.named}
            if stated is not None and stated.word("quant_method") == "fp8":
                extra.excluded = rules.excluded
            return extra
    return rules


def _modules(q: Fields, *names: str) -> Modules:
    for name in names:
        found = q.words(name)
        if found is not None:
            return _made(q, name, found)
    return Modules()


def _made(q: Fields, name: str, patterns: list[str]) -> Modules:
    try:
        return Modules(patterns)
    except Pattern as error:
        q.faults.append(SpecError.single(f"{q.path}.{name}", None, str(error)).faults[0])
        return Modules()


def base_dtype(top: Fields, text: Fields) -> str:
    """Return the format of what is not quantised."""
    for fields in (text, top):
        name = fields.word("dtype", "torch_dtype").removeprefix("torch.")
        if name in _DTYPES:
            return _DTYPES[name]
        if name:
            where = "dtype" if fields.has("dtype") else "torch_dtype"
            fields.fault(where, f"expected {', '.join(_DTYPES)}")
    return "bf16"


def formats(stack: Stack, rules: Rules, dtype: str) -> tuple[Formats, list[str]]:
    """Return the format of each class, and a note for each class whose modules differ."""
    plain: dict[str, Any] = {}
    if dtype != "bf16":
        plain = {name: {"dtype": dtype} for name in _present(stack)}
    notes = list(rules.notes)
    for tensor, votes in _votes(stack, rules).items():
        chosen, most = votes.most_common(1)[0]
        others = votes.total() - most
        if others > _WORTH_A_NOTE * votes.total():
            notes.append(
                f"{others / votes.total():.1%} of {tensor} has another format than the rest"
                f" ({', '.join(_named(other, dtype) for other in votes if other != chosen)});"
                f" all of it counts as {_named(chosen, dtype)}."
            )
        if chosen:
            plain[tensor] = chosen.model_dump(exclude_defaults=True)
            # Weights that are widened are widened to what the activations are.
            if chosen.compute == "bf16":
                plain[tensor]["compute"] = dtype
    plain |= {name: shape for name, shape in stack.formats.items() if not rules.kv}
    if stack.formats and not rules.kv:
        notes.append("What is kept of the context has the formats of the reference code.")
    elif rules.kv is None and any(name in _present(stack) for name in ("kv", "index")):
        notes.append(f"The files name no format of keys and values: {dtype.upper()}.")
    if rules.kv:
        plain["kv"] = rules.kv.model_dump(exclude_defaults=True)
    return Formats.model_validate(plain), notes


def _present(stack: Stack) -> list[str]:
    """Return the classes of tensor that a model has and that follow its plain format."""
    found = {"head", "embedding", "norms", "kv", "activations"}
    for layer in {id(layer): layer for layer in stack.layers}.values():
        parts = layer.attention.parts(stack.hidden, "decode")
        found |= {matrix.tensor for matrix in parts.matrices}
        found |= {stream.tensor for stream in parts.streams} - {"window"}
        found |= {state.tensor for state in parts.states} - {"state"}
        found |= {matrix.tensor for matrix in layer.ffn.parts(stack.hidden).matrices}
        found |= {"experts"} if isinstance(layer.ffn, MoeFfn) else set()
    return [name for name in Formats.model_fields if name in found]


def _named(chosen: Format | None, dtype: str) -> str:
    return (chosen.dtype if chosen else dtype).upper()


def _votes(stack: Stack, rules: Rules) -> dict[str, Counter[Format | None]]:
    """Return for each class how many of its numbers have which format."""
    votes: dict[str, Counter[Format | None]] = {}
    where = modules.prefix(rules.text)
    alike = not rules.text
    known: dict[int, list[modules.Module]] = {}
    for i, layer in enumerate(stack.layers):
        if id(layer) not in known:
            known[id(layer)] = modules.of_layer(layer, stack.hidden, stack.blocks)
        elif alike:
            continue  # without names, equal layers have equal formats
        for module in known[id(layer)]:
            names = tuple(f"{where}.{i}.{name}" for name in module.names)
            chosen = rules.of(names, module.tensor)
            votes.setdefault(module.tensor, Counter())[chosen] += module.numbers
    votes["head"] = Counter({rules.of(_HEAD, "head"): 1})
    return votes
