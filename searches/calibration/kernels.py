"""Priors of some cards from closed forms that were fitted to timings of single kernels.

A file of such fits (``benchmarks/points/kernels.json`` is one) holds, for systems that the
catalogue knows by name, what products, attention, experts and collectives reach, by engine and
format:

``gemm.fit``       SYSTEM.ENGINE.FORMAT: ``t0_us``, ``eff_compute``, ``eff_hbm``
``attention.fit``  SYSTEM.ENGINE.KIND.FORMAT: ``eff_hbm`` (decode), ``eff_compute_causal`` (context)
``moe.fit``        SYSTEM.ENGINE.FORMAT: ``t0_us``, ``eff_compute``, ``eff_hbm_weights``
``comm.fit``       SYSTEM.LIBRARY.KERNEL.RANKS, or .PART of an exchange with experts:
                   ``alpha_us``, ``beta_GBps``

A prior is the median over all that is identified: shares at a bound of their fit are none, nor are
fits that miss kernels they had not seen by more than ``WORST``. Shares are of the peaks that
``meta.peaks_used`` states, and become losses against those of the catalogue.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from costmodels.collectives.crossing import ALGORITHMS, is_usual
from costmodels.collectives.routes import Route
from costmodels.plans import PlanTable
from searches.calibration.fit import Priors
from specs import catalog, point_names
from specs.documents import read_file
from specs.errors import SpecError
from specs.hardware import HardwareSpec

KERNELS_PER_LAYER = 5
"""Launches of a layer that nothing hides: four products and attention; what lies between them is
taken as fused. An assumption: engines differ, and the fit corrects it."""

WORST = 25.0
"""Percent by which a fit may miss kernels that it had not seen."""

_BOUND = 0.99
"""Share of a peak from which a fit stands at its bound."""

_LEAST_LOSS = 1.02
"""Smallest loss that is believed: in-network sums beat the links, and a fit starts above 1."""

_LARGE = 1e9
"""Bytes of a collective at which start-up times do not count."""

_DTYPES = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4"}

Raw = Mapping[str, Any]


@dataclass(frozen=True)
class Kernels:
    """``priors`` by card and term; ``notice`` that goes with what is derived from them."""

    priors: Priors
    notice: str


def read_kernels(path: str | Path) -> Kernels:
    """Read fits of kernels and return the priors of every card that they cover.

    Raises ``SpecError`` for a file that cannot be read, a system that the catalogue does not know,
    figures that are none, and a file that says nothing of any card.
    """
    raw = read_file(Path(path))
    try:
        return kernels_of(raw)
    except SpecError as error:
        raise SpecError(error.faults, source=str(path)) from None


def kernels_of(raw: Raw) -> Kernels:
    """Return the priors that fits of kernels stand for; see the module."""
    sections = ("gemm", "attention", "moe", "comm")
    names = dict.fromkeys(name for part in sections for name in _at(raw, part, "fit"))
    priors: dict[str, dict[str, float]] = {}
    for name in names:
        system = _System(name, raw)
        card = system.hardware.card.name
        if found := system.terms():
            priors[card] = found
    if not priors:
        raise SpecError.single("", None, "holds no fits of kernels of any card")
    meta = _at(raw, "meta")
    return Kernels(priors, str(meta.get("notice") or meta.get("source") or ""))


@dataclass(frozen=True)
class _System:
    """The fits of one system."""

    name: str
    raw: Raw

    @cached_property
    def hardware(self) -> HardwareSpec:
        try:
            entry = point_names.machine(self.name).entries[0]
        except point_names.Unknown as unknown:
            raise SpecError.single(self.name, None, str(unknown)) from None
        return HardwareSpec.model_validate(catalog.entry("hardware", entry))

    @property
    def _hbm(self) -> float:
        hbm = self.hardware.memory.hbm
        if hbm is None:
            raise SpecError.single(self.name, None, "has no HBM, so kernels say nothing of it")
        return hbm.rate

    def terms(self) -> dict[str, float]:
        """Return the median of every term that anything is said of."""
        told: dict[str, list[float]] = {}
        for term, value in self._told():
            told.setdefault(term, []).append(value)
        return {term: float(f"{median(values):.4g}") for term, values in told.items()}

    def _told(self) -> Iterator[tuple[str, float]]:
        for path, fit in self._fits("gemm", 2):
            yield from self._reads(fit, f"{path}.eff_hbm", "weights")
            yield from self._computes(fit, path, "eff_compute", "dense_compute")
            launch = 1e-6 * _positive(fit, f"{path}.t0_us")
            yield from _both("layer", KERNELS_PER_LAYER * launch)
        for path, fit in self._fits("attention", 3):
            if ".decode" in path:
                shared = fit.get("gqa_ratio_4_to_8", fit)
                yield from self._reads(shared, f"{path}.eff_hbm", "context", ("decode",))
            elif "eff_compute_causal" in fit:
                yield from self._computes(
                    fit, path, "eff_compute_causal", "attention_compute", ("prefill",)
                )
        for path, fit in self._fits("moe", 2):
            yield from self._reads(fit, f"{path}.eff_hbm_weights", "experts")
            # Where the efficiency of dense products bounds the fit, it says nothing of its own.
            if fit.get("eff_compute") != fit.get("eff_compute_upper_bound_used"):
                yield from self._computes(fit, path, "eff_compute", "expert_compute")
            yield from _both("moe_layer", 1e-6 * _positive(fit, f"{path}.t0_us"))
        yield from self._collectives()

    def _fits(self, section: str, depth: int) -> Iterator[tuple[str, Raw]]:
        """Yield path and figures of each fit that may be used."""
        for path, fit in _leaves(_at(self.raw, section, "fit", self.name), depth):
            hold_out = [fit[name] for name in fit if name.startswith("holdout")]
            error = max((float(h.get("mape", 0.0)) for h in hold_out), default=0.0)
            if "DO_NOT_USE" not in fit and error <= WORST:
                yield f"{section}.fit.{self.name}.{path}", fit

    def _reads(
        self, fit: Raw, path: str, term: str, phases: tuple[str, ...] = ("decode", "prefill")
    ) -> Iterator[tuple[str, float]]:
        used = self._peak_used("hbm_Bps")
        peak = self._hbm
        yield from _loss(fit, path, peak / (used or peak), term, phases)

    def _computes(
        self,
        fit: Raw,
        path: str,
        field: str,
        term: str,
        phases: tuple[str, ...] = ("decode", "prefill"),
    ) -> Iterator[tuple[str, float]]:
        dtype = str(fit.get("peak") or _DTYPES.get(path.rsplit(".", 1)[-1], ""))
        peaks: Mapping[str, float] = dict(self.hardware.card.peak.items())
        if (peak := peaks.get(dtype)) is not None:
            used = self._peak_used(f"{dtype}_flops")
            yield from _loss(fit, f"{path}.{field}", peak / (used or peak), term, phases)

    def _peak_used(self, name: str) -> float | None:
        used = _at(self.raw, "meta", "peaks_used", self.name)
        return None if used.get(name) is None else _positive(used, f"peaks_used.{self.name}.{name}")

    def _collectives(self) -> Iterator[tuple[str, float]]:
        """Start-up times and losses of collectives inside one server, against the catalogue."""
        for library, fits in _leaves(_at(self.raw, "comm", "fit", self.name), 1):
            reduces = library.startswith("custom_allreduce")
            if not reduces and not library.startswith("deepep_ll"):
                continue
            for path, fit in _leaves(fits, 2):
                where = f"comm.fit.{self.name}.{library}.{path}"
                if reduces and "eager" not in path:
                    yield from self._allreduce(fit, where, int(path.rsplit(".", 1)[-1]))
                elif not reduces and path.startswith("nodes=1,"):
                    yield from self._alltoall(fit, where)

    def _allreduce(self, fit: Raw, path: str, ranks: int) -> Iterator[tuple[str, float]]:
        start, share = self._reached(fit, path, "allreduce", ranks)
        yield "start_up.reduce", start
        yield from _both("network", max(1 / share, _LEAST_LOSS))

    def _alltoall(self, fit: Raw, path: str) -> Iterator[tuple[str, float]]:
        """Dispatch or combine among the cards of a server; bytes count those that stay, too."""
        ranks = self.hardware.server.cards
        start, share = self._reached(fit, path, "all_to_all", ranks)
        yield "start_up.alltoall", start
        yield from _both("alltoall", max(ranks / (ranks - 1) / share, _LEAST_LOSS))

    def _reached(self, fit: Raw, path: str, operation: str, ranks: int) -> tuple[float, float]:
        """Start-up time over the stated one, and the share of the stated bandwidth."""
        start, large = (self._stated(operation, ranks, size) for size in (0.0, _LARGE))
        alpha = 1e-6 * _positive(fit, f"{path}.alpha_us")
        beta = 1e9 * _positive(fit, f"{path}.beta_GBps")
        return alpha / start, (large - start) / _LARGE * beta

    def _stated(self, operation: str, ranks: int, size: float) -> float:
        """Seconds of a collective of neighbouring cards as the catalogue states the links."""
        plans = PlanTable.from_columns({"tp": [ranks]})
        route = Route(self.hardware, plans, plans.tp, np.ones_like(plans.tp))
        return min(
            float(form(route, np.array([size]))[0])
            for name, form in ALGORITHMS[operation].items()
            if is_usual(name, route)
        )


def _both(term: str, value: float) -> Iterator[tuple[str, float]]:
    for phase in ("decode", "prefill"):
        yield f"{phase}.{term}", value


def _loss(
    fit: Raw, path: str, ratio: float, term: str, phases: tuple[str, ...]
) -> Iterator[tuple[str, float]]:
    """Yield the loss of a share that is identified, against a peak ``ratio`` times as high."""
    if (share := _positive(fit, path)) < _BOUND:
        for phase in phases:
            yield f"{phase}.{term}", max(ratio / share, _LEAST_LOSS)


def _positive(fit: Raw, path: str) -> float:
    """Return the figure that the last word of a path names. Raises ``SpecError``."""
    value = fit.get(path.rsplit(".", 1)[-1])
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < np.inf:
        raise SpecError.single(path, value, "must be a number above 0")
    return float(value)


def _at(raw: Raw, *names: str) -> Raw:
    """Return the mapping at a path, empty where there is none. Raises ``SpecError``."""
    here: Any = raw
    for name in names:
        here = here.get(name, {})
        if not isinstance(here, Mapping):
            raise SpecError.single(".".join(names), None, "expected a mapping of keys to values")
    return here


def _leaves(raw: Raw, depth: int) -> Iterator[tuple[str, Raw]]:
    """Yield path and content of every mapping at a depth."""
    for name, inner in raw.items():
        if not isinstance(inner, Mapping):
            raise SpecError.single(name, inner, "expected a mapping of keys to values")
        if depth == 1:
            yield name, inner
        else:
            for path, leaf in _leaves(inner, depth - 1):
                yield f"{name}.{path}", leaf
