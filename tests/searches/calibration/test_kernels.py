"""Fits of single kernels as priors of cards."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodels.calibration.terms import TERMS
from searches.calibration.fit import fit, observations
from searches.calibration.kernels import KERNELS_PER_LAYER, kernels_of, read_kernels
from specs.errors import SpecError
from tests.searches.calibration.synthetic import calibration, derived, lasting, points, random_terms

SHIPPED = Path(__file__).parents[3] / "benchmarks/points/kernels.json"
H200 = "H200 SXM 141GB"


def small(**gemm: Any) -> dict[str, Any]:
    """Two products of one system; what is given replaces figures of the first."""
    first = {"t0_us": 4.0, "eff_compute": 0.8, "eff_hbm": 0.8} | gemm
    second = {"t0_us": 6.0, "eff_compute": 0.5, "eff_hbm": 0.5}
    engines = {"vllm": {"bfloat16": first}, "sglang": {"fp8": second}}
    return {"meta": {"notice": "thanks"}, "gemm": {"fit": {"h200_sxm": engines}}}


def test_the_shipped_file_covers_four_cards() -> None:
    found = read_kernels(SHIPPED)
    assert set(found.priors) == {
        "H100 SXM 80GB",
        H200,
        "B200 SXM 180GB",
        "Blackwell of GB200, 186GB",
    }
    for terms in found.priors.values():
        assert set(terms) <= set(TERMS)
        assert {"decode.weights", "decode.context", "decode.network", "prefill.experts"} <= set(
            terms
        )
        for name, value in terms.items():
            assert value > TERMS[name].least
            # Within what a fit may believe: a few spreads of its own prior.
            assert abs(np.log(value / TERMS[name].prior)) < 2
    assert "Apache License" in found.notice
    assert "NVIDIA" in found.notice


def test_a_prior_is_the_median_of_what_is_reached() -> None:
    found = kernels_of(small()).priors[H200]
    assert found["decode.weights"] == pytest.approx((1 / 0.8 + 1 / 0.5) / 2)
    assert found["prefill.dense_compute"] == pytest.approx((1 / 0.8 + 1 / 0.5) / 2)
    assert found["decode.layer"] == pytest.approx(KERNELS_PER_LAYER * 5e-6)
    assert kernels_of(small()).notice == "thanks"


@pytest.mark.parametrize(
    "left_out",
    [
        {"eff_hbm": 0.9933},
        {"eff_hbm": 1.2},
        {"DO_NOT_USE": "a launch floor"},
        {"holdout_nk": {"mape": 26.0}},
    ],
)
def test_what_is_not_identified_counts_nothing(left_out: dict[str, Any]) -> None:
    assert kernels_of(small(**left_out)).priors[H200]["decode.weights"] == pytest.approx(2.0)


def test_shares_are_of_the_peaks_that_the_fit_used() -> None:
    raw = small()
    raw["meta"]["peaks_used"] = {"h200_sxm": {"hbm_Bps": 2.4e12}}
    found = kernels_of(raw).priors[H200]
    assert found["decode.weights"] == pytest.approx(2 * (1 / 0.8 + 1 / 0.5) / 2)


def test_attention_and_experts_have_terms_of_their_own() -> None:
    raw = small()
    kinds = {
        "decode_gqa_hd128": {"kv": {"eff_hbm": 0.1, "gqa_ratio_4_to_8": {"eff_hbm": 0.8}}},
        "context_gqa_hd128": {"kv": {"eff_compute_causal": 0.5, "peak": "bf16"}},
    }
    raw["attention"] = {"fit": {"h200_sxm": {"vllm": kinds}}}
    moe = {"t0_us": 30.0, "eff_hbm_weights": 0.5, "peak": "bf16"}
    bound = {"eff_compute": 0.8, "eff_compute_upper_bound_used": 0.8}
    raw["moe"] = {"fit": {"h200_sxm": {"vllm": {"bfloat16": moe | bound}}}}
    found = kernels_of(raw).priors[H200]
    assert found["decode.context"] == pytest.approx(1 / 0.8)
    assert "prefill.context" not in found
    assert found["prefill.attention_compute"] == pytest.approx(2.0)
    assert found["decode.experts"] == pytest.approx(2.0)
    assert found["decode.moe_layer"] == pytest.approx(30e-6)
    assert "decode.expert_compute" not in found


def test_collectives_are_set_against_the_links_of_the_catalogue() -> None:
    """Two cards of an H200: 0.822 us a round, two rounds; 450 GB/s a direction."""
    raw = small()
    reached = {"alpha_us": 4 * 0.822, "beta_GBps": 225}
    exchange = {"dispatch": {"alpha_us": 8.22, "beta_GBps": 450 / 2 * 8 / 7}}
    raw["comm"] = {
        "fit": {
            "h200_sxm": {
                "custom_allreduce_bf16": {"graph": {"2": reached}, "eager": {"2": {}}},
                "deepep_ll_1": {"nodes=1,h=1": exchange, "nodes=2,h=1": {"dispatch": {}}},
                "nccl": {"all_reduce": {}},
            }
        }
    }
    found = kernels_of(raw).priors[H200]
    assert found["start_up.reduce"] == pytest.approx(2.0, rel=1e-3)
    assert found["decode.network"] == pytest.approx(2.0, rel=1e-3)
    assert found["start_up.alltoall"] == pytest.approx(10.0, rel=1e-3)
    assert found["prefill.alltoall"] == pytest.approx(2.0, rel=1e-3)


def test_a_fit_takes_them() -> None:
    some = derived(points()[::3])
    found = lasting(some, calibration(random_terms(1)))
    done = fit(observations(found), read_kernels(SHIPPED).priors)
    assert np.isfinite(done.theta).all()


def broken(path: str, value: object) -> dict[str, Any]:
    raw = copy.deepcopy(small())
    here: Any = raw
    *parents, last = path.split("/")
    for name in parents:
        here = here[name]
    here[last] = value
    return raw


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, "holds no fits of kernels of any card"),
        ({"gemm": 3}, "gemm.fit: expected a mapping"),
        ({"gemm": {"fit": {"h999": {}}}}, "h999"),
        (broken("gemm/fit/h200_sxm/vllm", 1), "vllm: expected a mapping"),
        (
            broken("gemm/fit/h200_sxm/vllm/bfloat16/eff_hbm", "much"),
            "gemm.fit.h200_sxm.vllm.bfloat16.eff_hbm: must be a number above 0 (got much)",
        ),
        (broken("gemm/fit/h200_sxm/vllm/bfloat16/t0_us", -1), "t0_us: must be a number above 0"),
        (broken("gemm/fit/h200_sxm/vllm/bfloat16/eff_hbm", True), "eff_hbm: must be a number"),
    ],
)
def test_a_wrong_file_is_refused(raw: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = tmp_path / "kernels.json"
    file.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(SpecError) as refused:
        read_kernels(file)
    assert message in str(refused.value)
    assert str(refused.value).startswith(str(file))
