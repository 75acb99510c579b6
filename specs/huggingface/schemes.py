"""Number formats of quantisation schemes, by the names that exporters give them."""

from specs.errors import nearest
from specs.formats import Format, KvFormat
from specs.huggingface.fields import Fields

_FP8 = Format(dtype="fp8")
_INT4 = Format(dtype="int4", group=128, scale="bf16", compute="bf16")
_NVFP4 = Format(dtype="fp4", group=16, scale="fp8")
_MXFP4 = Format(dtype="fp4", group=32, scale="e8m0")

ALGORITHMS: dict[str, Format] = {
    "FP8": _FP8,
    "FP8_PER_CHANNEL_PER_TOKEN": _FP8,
    "FP8_PB_WO": Format(dtype="fp8", block=(128, 128), compute="bf16"),
    "FP8_PB_REAL": Format(dtype="fp8", block=(128, 128)),
    "FP8_BLOCK_SCALES": Format(dtype="fp8", block=(128, 128)),
    "MXFP8": Format(dtype="fp8", group=32, scale="e8m0"),
    "NVFP4": _NVFP4,
    "NVFP4_AWQ": _NVFP4,
    "NVFP4_SVDQUANT": _NVFP4,
    "W4A16_NVFP4": _NVFP4.model_copy(update={"compute": "bf16"}),
    "W4A8_NVFP4_FP8": _NVFP4.model_copy(update={"compute": "fp8"}),
    "MXFP4": _MXFP4,
    "W4A16_MXFP4": _MXFP4.model_copy(update={"compute": "bf16"}),
    "W4A8_MXFP4_FP8": _MXFP4.model_copy(update={"compute": "fp8"}),
    "W4A8_MXFP4_MXFP8": _MXFP4.model_copy(update={"compute": "fp8"}),
    "W4A16": _INT4,
    "W4A16_AWQ": _INT4,
    "INT4_AWQ": _INT4,
    "W4A8_AWQ": _INT4.model_copy(update={"compute": "fp8"}),
    "INT8": Format(dtype="int8"),
    "W8A8_SQ_PER_CHANNEL": Format(dtype="int8"),
    "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN": Format(dtype="int8"),
    "W8A16": Format(dtype="int8", compute="bf16"),
}
"""ModelOpt's algorithms; scales of a tensor or a channel are too few to count."""

KV_ALGORITHMS: dict[str, KvFormat] = {
    "FP8": KvFormat(dtype="fp8"),
    "INT8": KvFormat(dtype="int8"),
    "NVFP4": KvFormat(dtype="fp4", group=16, scale="fp8"),
}
"""ModelOpt's algorithms for keys and values."""


def by_algorithm(fields: Fields) -> Format | None:
    """Return the format that ``quant_algo`` names, with the group size beside it."""
    name = fields.word("quant_algo").upper()
    if not name:
        return None
    found = ALGORITHMS.get(name)
    if found is None:
        fields.fault("quant_algo", "this algorithm is not known", nearest(name[:80], ALGORITHMS))
        return None
    group = fields.optional("group_size")
    return found.model_copy(update={"group": group}) if group and found.group else found


def kv_cache(fields: Fields) -> KvFormat | None:
    """Return the format of keys and values, where the quantisation names one."""
    for name in ("kv_cache_quant_algo", "kv_cache_scheme"):
        value = fields.values.get(name)
        if isinstance(value, dict):
            return _kv_scheme(Fields(value, f"{fields.path}.{name}", fields.asked, fields.faults))
        if isinstance(value, str):
            known = KV_ALGORITHMS.get(value.upper())
            if known is None:
                fields.fault(
                    name,
                    "this format of keys and values is not known",
                    nearest(value, KV_ALGORITHMS),
                )
            return known
    return None


def _kv_scheme(scheme: Fields) -> KvFormat | None:
    bits, whole = scheme.count("num_bits"), scheme.word("type") == "int"
    if bits == 8:
        return KV_ALGORITHMS["INT8" if whole else "FP8"]
    if bits == 4 and not whole:
        return KV_ALGORITHMS["NVFP4"]
    scheme.fault("num_bits", "expected 8, or 4 for numbers with a point")
    return None


def by_weights(group: Fields) -> Format | None:
    """Return the format of one of the groups of compressed-tensors, or of a like ModelOpt file.

    Weights alone are quantised where ``input_activations`` is not there; else what is multiplied
    has the bits of the activations.
    """
    weights = group.section("weights")
    if weights is None:
        group.fault("weights", "missing, expected a mapping of fields to values")
        return None
    bits, whole = weights.count("num_bits"), weights.word("type", default="int") == "int"
    if bits not in (4, 8):
        weights.fault("num_bits", "expected 4 or 8")
        return None
    compute = None
    inputs = group.section("input_activations")
    if inputs is None:
        compute = "bf16"
    elif bits == 4 and inputs.count("num_bits", default=8) == 8:
        compute = "int8" if inputs.word("type", default="int") == "int" else "fp8"
    shape: dict[str, object] = {"dtype": f"{'int' if whole else 'fp'}{bits}", "compute": compute}
    size = weights.optional("group_size")
    block = weights.numbers("block_structure", length=2)
    if block and min(block[:2]) >= 1:
        shape |= {"block": (block[0], block[1])}
    elif size:
        shape |= {"group": size, "scale": _scale(group, weights, whole, size)}
    return Format.model_validate(shape)


def _scale(group: Fields, weights: Fields, whole: bool, size: int) -> str:
    """Return the format of the scales of groups: powers of two, FP8 (NVFP4) or as activations."""
    name = group.word("format")
    if weights.word("scale_dtype") == "torch.uint8" or "mxfp" in name:
        return "e8m0"
    if not whole and size == 16:
        return "fp8"
    return "e8m0" if not whole and size == 32 else "bf16"
