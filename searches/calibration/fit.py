"""Robust least squares of the terms of a calibration to measured times.

A time is fitted by a sum of terms, each an exponential of its parameters: t = Σ_k x_k exp(θ_k +
deviations). Residuals are relative, 1 - t/measured, and count by soft-L1; deviations count by their
spread (MAP estimate). Steps are Levenberg-Marquardt on sparse normal equations. Intervals come from
the curvature at the optimum (Laplace's approximation), with the scale of the residuals found.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from costmodels.calibration.terms import CARRIED, PRIORS, TERMS
from costmodels.plans import FloatArray, IntArray
from searches.calibration.deviations import BASE_SPREAD, Block, blocks
from searches.calibration.features import Features
from specs.calibration import Effect, Subject

_PRIORS = np.array(list(PRIORS.values()))

_STEPS = 40
_ENOUGH = 1e-3
"""Relative fall of the cost at which a fit ends."""

_ROUGH = (0.4, 0.12)
"""Scales of residuals of the first fits: wide ones let no point count as an outlier too early."""

_SCALES = (0.01, 0.25)
"""Between which the scale of residuals is looked for."""

_FEW_SESSIONS = 4
"""Sessions in flight up to which the time to the first token is fitted: above, it is queueing."""

_TTFT_WEIGHT = 0.3
_POOL_WEIGHT = 0.3
"""Weight of times to the first token, and of decode pools whose prefill is apart, beside 1."""

_NEGLIGIBLE = 0.002
"""Logarithm below which a deviation is left out."""


@dataclass(frozen=True)
class Observations:
    """Measured times with their derivatives, shapes ``(observations,)`` and ``(…, terms)``.

    ``slopes``   of what passes in any case
    ``carried``  of what passes in so far as steps carry it
    """

    subjects: tuple[Subject, ...]
    slopes: FloatArray
    carried: FloatArray
    seconds: FloatArray
    weights: FloatArray


def observations(found: Features) -> Observations:
    """Return the times that a fit uses: per token, and to the first token where few wait."""
    points = found.points
    tpot = np.array([p.tpot_s or np.nan for p in points])
    pool = np.array(["decode_pool" in p.rules for p in points])
    ttft = np.array([p.ttft_s or np.nan for p in points])
    few = np.array([(p.concurrency or np.inf) <= _FEW_SESSIONS for p in points])
    first = np.flatnonzero(few & np.isfinite(ttft) & np.isfinite(found.ttft).all(axis=1))
    steps = np.flatnonzero(np.isfinite(tpot))
    return Observations(
        tuple(found.subjects[i] for i in (*steps, *first)),
        np.concatenate([found.step[steps], found.ttft[first]]),
        np.concatenate([found.prompts[steps], np.zeros((len(first), len(TERMS)))]),
        np.concatenate([tpot[steps], ttft[first]]),
        np.concatenate(
            [np.where(pool[steps], _POOL_WEIGHT, 1.0), np.full(len(first), _TTFT_WEIGHT)]
        ),
    )


@dataclass(frozen=True)
class Fitted:
    """Parameters that were found, their covariance, and the scale of the residuals."""

    blocks: tuple[Block, ...]
    theta: FloatArray
    covariance: FloatArray
    scale: float

    def base(self) -> dict[str, tuple[float, float]]:
        """Return value and standard deviation of the logarithm of each term over all data."""
        logs = np.log(_PRIORS) + self.theta[: len(TERMS)]
        deviations = np.sqrt(np.diag(self.covariance)[: len(TERMS)])
        return {n: (float(v), float(d)) for n, v, d in zip(TERMS, logs, deviations, strict=True)}

    def effects(self) -> tuple[Effect, ...]:
        """Return every deviation that is not negligible."""
        found = []
        for block in self.blocks:
            end = block.start + block.size
            values = self.theta[block.start : end].reshape(len(block.of), -1)
            for subject, logs in zip(block.of, values, strict=True):
                factors = {
                    name: float(np.exp(log))
                    for name, log in zip(block.deviation.sets, logs, strict=True)
                    if abs(log) > _NEGLIGIBLE
                }
                if factors:
                    found.append(Effect(of=subject, factors=factors))
        return tuple(found)

    def deviation(self, subject: Mapping[str, str]) -> tuple[FloatArray, FloatArray]:
        """Standard deviation of the logarithm of each term of a subject, and that of its prior.

        ``subject`` names an engine and a card; models, releases and drafts are at their middle.
        """
        rows = np.zeros((len(TERMS), self.theta.size))
        rows[:, : len(TERMS)] = np.eye(len(TERMS))
        spread = np.full(len(TERMS), BASE_SPREAD**2)
        for block in self.blocks:
            if not set(block.deviation.fields) <= set(subject):
                continue
            part = Subject(**{name: subject[name] for name in block.deviation.fields})
            if part not in block.of:
                continue
            width = len(block.terms)
            start = block.start + block.of.index(part) * width
            rows[:, start : start + width] = block.terms.T
            spread = spread + block.deviation.spread**2
        after = np.einsum("ip,pq,iq->i", rows, self.covariance, rows)
        return np.sqrt(after), np.sqrt(spread)


Priors = Mapping[str, Mapping[str, float]]
"""What kernels of some cards reach, by term; a card's deviation is pulled there and not to 0."""


def fit(observed: Observations, priors: Priors | None = None) -> Fitted:
    """Fit bases and deviations; the scale of residuals is that of a first fit."""
    problem = _Problem(observed, blocks(observed.subjects), priors or {})
    theta = problem.middle
    for scale in _ROUGH:
        theta = problem.solve(theta, scale)
    scale = problem.scale(theta)
    theta = problem.solve(theta, scale)
    return Fitted(problem.blocks, theta, problem.covariance(theta, scale), scale)


@dataclass(frozen=True)
class _Problem:
    """Least squares over observations; ``theta`` holds the bases, then each block."""

    observed: Observations
    blocks: tuple[Block, ...]
    priors: Priors

    @cached_property
    def size(self) -> int:
        return len(TERMS) + sum(block.size for block in self.blocks)

    @cached_property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Logarithms between which a term makes sense."""
        with np.errstate(divide="ignore"):
            least = np.log([term.least for term in TERMS.values()])
        return least, np.log([term.most for term in TERMS.values()])

    @cached_property
    def precision(self) -> FloatArray:
        """1/σ² of each parameter's prior."""
        found = np.full(self.size, BASE_SPREAD**-2)
        for block in self.blocks:
            found[block.start : block.start + block.size] = block.deviation.spread**-2
        return found

    @cached_property
    def middle(self) -> FloatArray:
        """Middle of each parameter's prior."""
        found = np.zeros(self.size)
        names = list(TERMS)
        for block in self.blocks:
            if block.deviation.fields != ("card",):
                continue
            for index, subject in enumerate(block.of):
                for name, value in self.priors.get(subject.card or "", {}).items():
                    place = block.start + index * len(block.terms) + names.index(name)
                    found[place] = np.log(value / TERMS[name].prior)
        return found

    @cached_property
    def places(self) -> tuple[IntArray, IntArray]:
        """Row pointers and columns of the Jacobian: the same number of entries in every row."""
        rows = len(self.observed.seconds)
        columns = [np.tile(np.arange(len(TERMS)), (rows, 1))]
        for block in self.blocks:
            width = len(block.terms)
            start = block.start + np.maximum(block.code, 0) * width
            columns.append(start[:, None] + np.arange(width))
        joined = np.concatenate(columns, axis=1)
        return np.arange(rows + 1) * joined.shape[1], joined.ravel()

    def logs(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Logarithm of the estimated times, and the share of each term in them."""
        values = np.log(_PRIORS) + theta[: len(TERMS)]
        values = np.repeat(values[None], len(self.observed.seconds), axis=0)
        for block in self.blocks:
            mine = theta[block.start : block.start + block.size].reshape(len(block.of), -1)
            known = block.code >= 0
            if len(block.of):
                values[known] += mine[block.code[known]] @ block.terms
        least, most = self.bounds
        terms = np.exp(np.clip(values, least, most))
        share = list(TERMS).index(CARRIED)
        carried = self.observed.carried * terms * terms[:, share, None]
        parts = self.observed.slopes * terms + carried
        seconds = parts.sum(axis=1)
        parts[:, share] = carried.sum(axis=1)
        # A term at its bound does not move.
        moving = np.where((values > least) & (values < most), parts, 0.0)
        return np.log(seconds), moving / seconds[:, None]

    def jacobian(self, shares: FloatArray) -> sparse.csr_matrix:
        parts = [shares]
        for block in self.blocks:
            parts.append(np.where(block.code[:, None] >= 0, shares @ block.terms.T, 0.0))
        pointers, columns = self.places
        data = np.concatenate(parts, axis=1).ravel()
        return sparse.csr_matrix((data, columns, pointers), shape=(len(shares), self.size))

    def residuals(self, theta: FloatArray) -> FloatArray:
        found: FloatArray = 1 - np.exp(self.logs(theta)[0]) / self.observed.seconds
        return found

    def cost(self, theta: FloatArray, scale: float) -> float:
        z = self.residuals(theta) / scale
        fitted = self.observed.weights @ (np.sqrt(1 + z**2) - 1)
        return float(fitted + self.precision @ (theta - self.middle) ** 2 / 2)

    def normal(self, theta: FloatArray, scale: float) -> tuple[FloatArray, FloatArray]:
        """Curvature and slope of the cost."""
        logs, shares = self.logs(theta)
        ratio = np.exp(logs) / self.observed.seconds
        residual = 1 - ratio
        weight = self.observed.weights / np.sqrt(1 + (residual / scale) ** 2) / scale**2
        jacobian = self.jacobian(shares * ratio[:, None])
        curvature = (jacobian.T @ jacobian.multiply(weight[:, None]).tocsr()).toarray()
        curvature[np.diag_indices(self.size)] += self.precision
        return curvature, jacobian.T @ (weight * residual) - self.precision * (theta - self.middle)

    def solve(self, theta: FloatArray, scale: float) -> FloatArray:
        """Walk downhill from ``theta`` until the cost hardly falls."""
        cost, damping = self.cost(theta, scale), 1e-2
        for _ in range(_STEPS):
            curvature, slope = self.normal(theta, scale)
            before = cost
            for _ in range(8):
                damped = curvature + np.diag(damping * np.diag(curvature))
                step = linalg.solve(damped, slope, assume_a="pos")
                new = self.cost(theta + step, scale)
                if new < cost:
                    theta, cost, damping = theta + step, new, max(damping / 5, 1e-6)
                    break
                damping *= 5
            if before - cost < _ENOUGH * cost:
                break
        return theta

    def scale(self, theta: FloatArray) -> float:
        """Scale of the residuals of times per token, from their middle half."""
        found = self.residuals(theta)[self.observed.weights == 1.0]
        if not found.size:
            return _SCALES[1]
        low, high = np.quantile(found, [0.25, 0.75])
        return float(np.clip((high - low) / 1.349, *_SCALES))

    def covariance(self, theta: FloatArray, scale: float) -> FloatArray:
        found: FloatArray = linalg.inv(self.normal(theta, scale)[0])
        return found
