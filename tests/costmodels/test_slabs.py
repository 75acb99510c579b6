"""Slabs of compressed attention: sizes and counts that engines publish, and laws."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels.plans import ONE_CARD
from costmodels.slabs import Slabs, _group_size, slabs
from specs import catalog
from specs.engine import CompressedPages
from specs.model import ModelSpec

VLLM = CompressedPages.model_validate(catalog.entry("engines", "vllm")["memory"]["compressed"])
ASCEND = CompressedPages.model_validate(
    catalog.entry("engines", "vllm-ascend")["memory"]["compressed"]
)
INDEX = {
    "fp4": {"dtype": "fp4", "group": 32, "scale": "e8m0"},
    "fp8": {"dtype": "fp8", "group": 128, "scale": "fp32"},
    "int8": {"dtype": "int8", "group": 128, "scale": "fp16"},
}


def pool(model: str, rules: CompressedPages, index: str = "fp8", **formats: Any) -> Slabs:
    raw = catalog.entry("models", model)
    raw = {**raw, "formats": {**raw["formats"], "index": INDEX[index], **formats}}
    found = slabs(ModelSpec.model_validate(raw), rules, ONE_CARD)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("model", "index", "size"),
    [
        ("deepseek-v4-flash", "fp8", 1_002_240),  # vllm issue 54703
        ("deepseek-v4-pro", "fp4", 1_315_008),  # vllm PR 48993
    ],
)
def test_a_slab_of_vllm(model: str, index: str, size: int) -> None:
    assert pool(model, VLLM, index).size[0] == size


def test_slabs_of_a_request_of_vllm() -> None:
    # vllm PR 52495 for DeepSeek-V4-Flash-0731: 132 of everything, 4,227 and 2,129 of partial
    # entries, 267 of each of two groups of windows.
    held = pool("deepseek-v4-flash", VLLM).held(33_792, 2 * 8_448)
    assert held[0] == 132 + 4_227 + 2_129 + 2 * 267


def test_the_check_at_start_of_vllm_0_22() -> None:
    found = pool("deepseek-v4-flash", VLLM)
    # Tuples of 22 layers, each with pages of 37,440, 8,640 and 1,728 bytes (vllm issue 44376).
    assert found.start[0] == 22 * (37_440 + 8_640 + 1_728)


def test_the_check_at_start_on_ascend() -> None:
    # vllm-ascend issue 14678: DeepSeek-V4-Pro with blocks of 64 entries.
    rules = ASCEND.model_copy(update={"block": 64, "window_block": 64, "state_page": 2.0**15})
    found = pool("deepseek-v4-pro", rules, "int8", kv={}, window=None)
    assert found.start[0] == 2_289_536


@pytest.mark.parametrize(
    ("depths", "size"), [([21, 43, 21, 20], 22), ([21, 46, 21, 20], 23), ([3, 1, 3, 40], 3)]
)
def test_layers_of_a_group(depths: list[int], size: int) -> None:
    assert _group_size(depths) == size


@given(st.integers(1, 10**6), st.integers(1, 10**5), st.integers(0, 10**5), st.integers(0, 10**5))
def test_more_tokens_never_hold_less(tokens: int, more: int, flying: int, further: int) -> None:
    found = pool("deepseek-v4-flash", VLLM)
    held = found.held(tokens, flying)
    assert (found.held(tokens + more, flying) >= held).all()
    assert (found.held(tokens, flying + further) >= held).all()


@pytest.mark.parametrize("rules", [VLLM, ASCEND], ids=["vllm", "vllm-ascend"])
def test_layers_stand_for_a_whole_slab(rules: CompressedPages) -> None:
    model = ModelSpec.model_validate(catalog.entry("models", "deepseek-v4-flash"))
    found = slabs(model, rules, ONE_CARD)
    assert found is not None
    assert np.dot(model.kind_counts, found.owned) == pytest.approx(1)
    assert (found.start >= found.size).all()
