"""Measured points that never were: the product itself says what they took, with known terms."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from costmodels.calibrated import CalibratedModel
from costmodels.calibration.effects import values_for
from costmodels.calibration.terms import CARRIED, PRIORS, TERMS
from searches.calibration.features import Features, features
from searches.predict import predict
from specs.calibration import Calibration, Covered, Effect, FitError, Subject, TermValue
from specs.points import Point, read_points

ENGINE, CARD = "vllm", "H200 SXM 141GB"

MODELS = {
    "Qwen3-8B": (1, 2),
    "Qwen3-32B": (1, 2, 8),
    "Llama-3.1-70B": (2, 8),
    "Qwen3-30B-A3B": (1, 4),
    "gpt-oss-120b": (1, 2, 8),
}
"""Models with the degrees of TP that are measured."""

LENGTHS = ((128, 128), (1024, 1024), (8192, 256), (30000, 2000))
SESSIONS = (1, 4, 32, 256)

Effects = dict[Subject, dict[str, float]]

NO_ERROR = FitError(points=0, mape=0, median=0, p90=0, bias=0)


def table(hardware: str = "H200-SXM", engine: str = "vllm 0.10.0") -> str:
    """Rows of a table; each has a time, which nobody believes."""
    rows = [
        "model,hardware,engine_version,tp,ep,concurrency_or_global_batch,isl,osl,tpot_ms,ttft_ms"
    ]
    for model, degrees in MODELS.items():
        for isl, osl in LENGTHS:
            rows += [
                f"{model},{hardware},{engine},{tp},{ep},{n},{isl},{osl},10,100"
                for tp in degrees
                for ep in sorted({1, tp if "A3B" in model else 1})
                for n in SESSIONS
            ]
    return "\n".join(rows) + "\n"


def points(text: str | None = None) -> tuple[Point, ...]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "points.csv"
        file.write_text(text or table(), encoding="utf-8")
        found = read_points(file)
    assert not found.refused, found.refused[:3]
    return found.points


def calibration(
    values: Mapping[str, float] = PRIORS,
    effects: Effects | None = None,
    pairs: tuple[tuple[str, str], ...] = ((ENGINE, CARD),),
) -> Calibration:
    """A calibration with known terms that covers some engines on cards."""
    whole = {"models": (), "dates": "", "points": 1, "tpot": NO_ERROR}
    spans = dict.fromkeys(("batch", "context", "prompt", "cards", "attention_dp", "ep"), (1.0, 1e6))
    return Calibration(
        name="known",
        sources=("made up",),
        date="2026-01-01",
        points=1,
        data="0",
        residual=0.0,
        terms={
            name: TermValue(value=v, interval=(v, v), prior=PRIORS[name], identified=True)
            for name, v in values.items()
        },
        effects=tuple(Effect(of=of, factors=dict(f)) for of, f in (effects or {}).items()),
        covered=tuple(Covered(engine=e, card=c, **whole, **spans) for e, c in pairs),
    )


def measured(some: tuple[Point, ...], known: Calibration) -> tuple[Point, ...]:
    """The points with the times that the calibrated model gives."""
    model = CalibratedModel(known)
    found = predict(some, lambda point: model)
    assert not found.failed
    return tuple(
        replace(point, tpot_s=float(tpot), ttft_s=float(ttft))
        for point, tpot, ttft in zip(found.points, found.tpot_s, found.ttft_s, strict=True)
    )


def derived(some: tuple[Point, ...]) -> Features:
    """The points with their derivatives at the priors."""
    return features(some)


def per_token(found: Features, values: Mapping[Subject, Mapping[str, float]]) -> np.ndarray:
    """Times per token that the derivatives of points and some terms stand for."""
    terms = np.array([[*values[subject].values()] for subject in found.subjects])
    share = terms[:, list(TERMS).index(CARRIED)]
    whole: np.ndarray = (found.step * terms).sum(1) + share * (found.prompts * terms).sum(1)
    return whole


def first_token(found: Features, values: Mapping[Subject, Mapping[str, float]]) -> np.ndarray:
    """Times to the first token, likewise."""
    terms = np.array([[*values[subject].values()] for subject in found.subjects])
    whole: np.ndarray = (found.ttft * terms).sum(1)
    return whole


def terms_of(known: Calibration, found: Features) -> dict[Subject, dict[str, float]]:
    return {subject: values_for(known, subject) for subject in set(found.subjects)}


def lasting(found: Features, known: Calibration, noise: float = 0.0, seed: int = 0) -> Features:
    """The points with the times that known terms and some noise give them."""
    terms = terms_of(known, found)
    factors = np.exp(np.random.default_rng(seed).normal(0, noise, (2, len(found.points))))
    tpot, ttft = per_token(found, terms) * factors[0], first_token(found, terms) * factors[1]
    return replace(
        found,
        points=tuple(
            replace(point, tpot_s=float(a), ttft_s=float(b))
            for point, a, b in zip(found.points, tpot, ttft, strict=True)
        ),
    )


def random_effects(found: Features, seed: int, spread: float = 0.3) -> Effects:
    """Deviations of each model, and of the engine."""
    rng = np.random.default_rng(seed)
    models = sorted({Subject(model=s.model, format=s.format) for s in found.subjects}, key=str)
    effects: Effects = {
        of: {phase: float(np.exp(rng.normal(0, spread))) for phase in ("decode", "prefill")}
        for of in models
    }
    return effects | {Subject(engine=ENGINE): {"launch": float(np.exp(rng.normal(0, spread)))}}


def random_terms(seed: int, spread: float = 0.25) -> dict[str, float]:
    """Terms about their priors, within what makes sense."""
    logs = np.random.default_rng(seed).normal(0, spread, len(TERMS))
    return {
        name: min(max(term.prior * float(np.exp(log)), term.least * 1.05), term.most * 0.95)
        for (name, term), log in zip(TERMS.items(), logs, strict=True)
    }
