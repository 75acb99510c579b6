"""From a fit to a calibration: values, intervals, what is covered, and what is not identified."""

from collections.abc import Iterable, Sequence
from datetime import date

import numpy as np

from costmodels.calibration.terms import TERMS
from costmodels.plans import BoolArray, FloatArray
from searches.calibration.features import Features
from searches.calibration.fit import Fitted
from searches.predict import Predictions
from specs.calibration import Calibration, Covered, FitError, Span, TermValue

_NORMAL = 1.96
"""Standard deviations on either side that hold 95 %."""

_TOLD = 0.5
"""Share of the prior's spread above which data say no more of a term than the prior does."""

LEAST = 3
"""Points of an engine on a card from which it counts as covered."""

_NO_ERROR = FitError(points=0, mape=0.0, median=0.0, p90=0.0, bias=0.0)


def compose(
    name: str,
    fitted: Fitted,
    found: Features,
    judged: Predictions | None = None,
    *,
    title: str = "",
    sources: Sequence[str] = ("measured points",),
    notice: str = "",
    data: str = "",
) -> Calibration:
    """Return the calibration of a fit; ``judged`` are estimates of its points by other folds."""
    covered, unknown = [], []
    for engine, card in _pairs(found):
        of = {"engine": engine, "card": card}
        rows = np.array([(s.engine, s.card) == (engine, card) for s in found.subjects])
        if np.count_nonzero(rows) < LEAST:
            continue
        covered.append(_covered(engine, card, found, rows, judged))
        after, before = fitted.deviation(of)
        unknown += [
            f"{term}: {engine} on {card}"
            for term, told in zip(TERMS, after < _TOLD * before, strict=True)
            if not told
        ]
    return Calibration(
        name=name,
        title=title,
        sources=tuple(sources),
        notice=notice,
        date=date.today().isoformat(),
        points=len(found.points),
        data=data[:12],
        residual=fitted.scale,
        terms=dict(_terms(fitted)),
        effects=fitted.effects(),
        covered=tuple(covered),
        not_identified=tuple(unknown),
    )


def _terms(fitted: Fitted) -> Iterable[tuple[str, TermValue]]:
    after, before = fitted.deviation({})
    told = dict(zip(TERMS, after < _TOLD * before, strict=True))
    for name, (log, deviation) in fitted.base().items():
        term = TERMS[name]
        value = term.bounded(float(np.exp(log)))
        low, high = np.exp(log - _NORMAL * deviation), np.exp(log + _NORMAL * deviation)
        yield (
            name,
            TermValue(
                value=value,
                interval=(min(float(low), value), max(float(high), value)),
                prior=term.prior,
                identified=bool(told[name]),
            ),
        )


def _pairs(found: Features) -> list[tuple[str, str]]:
    """Engines and cards that occur together, sorted."""
    return sorted({(s.engine, s.card) for s in found.subjects if s.engine and s.card})


def _covered(
    engine: str, card: str, found: Features, rows: BoolArray, judged: Predictions | None
) -> Covered:
    some = found.take(np.flatnonzero(rows))
    dates = sorted(point.date for point in some.points if point.date)
    held = [point.context + point.prompt for point in some.points]
    ends = [h + point.generate for h, point in zip(held, some.points, strict=True)]
    return Covered(
        engine=engine,
        card=card,
        points=len(some.points),
        dates=f"{dates[0]} to {dates[-1]}" if dates else "",
        models=tuple(sorted({f"{s.model}/{s.format}" for s in some.subjects})),
        batch=_span(some.batch),
        context=_span([*held, *ends]),
        prompt=_span([point.prompt for point in some.points]),
        cards=_span(some.cards),
        attention_dp=_span([int(point.axes["attention_dp"]) for point in some.points]),
        ep=_span([int(point.axes["ep"]) for point in some.points]),
        tpot=_NO_ERROR if judged is None else _error(judged, {p.id for p in some.points}),
    )


def _span(values: Iterable[float]) -> Span:
    listed = [float(value) for value in values]
    return min(listed), max(listed)


def _error(judged: Predictions, wanted: set[str]) -> FitError:
    """Error of the time per token over some points."""
    ratio = np.array(
        [
            tpot / point.tpot_s
            for point, tpot in zip(judged.points, judged.tpot_s, strict=True)
            if point.id in wanted and point.tpot_s
        ]
    )
    return fit_error(ratio[np.isfinite(ratio)])


def fit_error(ratio: FloatArray) -> FitError:
    """Error of estimates from their ratio to what was measured."""
    if not ratio.size:
        return _NO_ERROR
    off = np.abs(ratio - 1)
    return FitError(
        points=int(ratio.size),
        mape=float(off.mean()),
        median=float(np.median(off)),
        p90=float(np.quantile(off, 0.9)),
        bias=float((ratio - 1).mean()),
    )
