"""Sessions in blocks of KV, and in pages where caches of several kinds share them.

An engine that shares one pool among kinds of layer gives every kind pages of one size, and groups
as many layers as the least frequent kind has, so that a page serves a layer of each group. A layer
with a recurrent state needs a page for the state, however small: blocks of attention grow until
theirs are as large. A layer that sees a window holds the pages that the window touches, and those
of the tokens that are in flight. Compressed attention has pages of its own, see
:mod:`costmodels.slabs`.
"""

import numpy as np

from costmodels import sharding
from costmodels.engine_memory import limits
from costmodels.plans import FloatArray, PlanTable
from costmodels.remembered import remembered
from costmodels.slabs import Slabs, slabs
from specs.attention import (
    CompressedAttention,
    GqaAttention,
    LinearAttention,
    MlaAttention,
    SwaAttention,
)
from specs.engine import Engine
from specs.model import Layer
from specs.problem import Problem

_SHARE_PAGES = (GqaAttention, MlaAttention, SwaAttention, LinearAttention)
"""Kinds of attention whose caches can lie in pages of one size."""


def session_bytes(
    problem: Problem, engine: Engine, plans: PlanTable, tokens: float, in_flight: float = 0
) -> list[FloatArray]:
    """Bytes that a session of ``tokens`` tokens holds in one layer of each kind, on one rank.

    ``in_flight``: tokens of passes that are not over, whose pages windows hold as well.
    """
    kinds, block = problem.model.kinds, engine.memory.block
    pool = _slabs(problem, plans)
    if pool is not None:
        held = pool.held(tokens, in_flight) * pool.size
        # The pool lies where layers keep something for good; the others keep their own at least.
        own = [_kept(problem, kind, plans, tokens) for kind in kinds]
        return [np.maximum(held * part, least) for part, least in zip(pool.owned, own, strict=True)]
    caching = [kind for kind in kinds if _kept(problem, kind, plans, block).any()]
    paged = len({type(kind.attention) for kind in caching}) > 1 and all(
        isinstance(kind.attention, _SHARE_PAGES) for kind in caching
    )
    if engine.memory.caches == "pages" and paged:
        return _in_pages(problem, engine, plans, tokens, in_flight, caching)
    whole = np.ceil(tokens / block) * block
    return [_kept(problem, kind, plans, whole) for kind in kinds]


def in_flight_bytes(problem: Problem, engine: Engine, plans: PlanTable) -> list[FloatArray]:
    """Bytes of the tokens in flight in one layer of each kind: once, however many sessions."""
    longest = float(problem.longest)
    tokens = engine.memory.window_passes * limits(problem, engine).tokens
    then = session_bytes(problem, engine, plans, longest, tokens)
    now = session_bytes(problem, engine, plans, longest)
    return [with_them - without for with_them, without in zip(then, now, strict=True)]


def start_factor(problem: Problem, plans: PlanTable) -> FloatArray:
    """Factor by which the check at start-up counts a session larger than the pool then holds."""
    pool = _slabs(problem, plans)
    return np.ones(len(plans)) if pool is None else pool.start / pool.size


@remembered
def _slabs(problem: Problem, plans: PlanTable) -> Slabs | None:
    """The pool that caches of compressed attention share; ``None`` for other models."""
    kinds = {type(kind.attention) for kind in problem.model.kinds}
    compressed = any(issubclass(kind, CompressedAttention) for kind in kinds)
    rules = problem.engine.memory.compressed if problem.engine else None
    if rules is None or not compressed or LinearAttention in kinds:
        return None
    return slabs(problem.model, rules, plans)


def _in_pages(
    problem: Problem,
    engine: Engine,
    plans: PlanTable,
    tokens: float,
    in_flight: float,
    caching: list[Layer],
) -> list[FloatArray]:
    memory = engine.memory
    counts = dict(zip(problem.model.kinds, problem.model.kind_counts, strict=True))
    group = min(counts[kind] for kind in caching)
    state = np.zeros(len(plans))
    token = np.full(len(plans), np.inf)
    for kind in caching:
        if isinstance(kind.attention, LinearAttention):
            state = np.maximum(state, _kept(problem, kind, plans, 0))
        else:
            token = np.minimum(token, _kept(problem, kind, plans, 1))
    block = np.maximum(np.ceil(state / token / memory.block), 1) * memory.block
    found = []
    for kind in problem.model.kinds:
        if kind not in caching:
            found.append(np.zeros(len(plans)))
            continue
        if isinstance(kind.attention, LinearAttention):
            size = memory.state_pages * block * token
        else:
            pages = np.ceil(tokens / block)
            if isinstance(kind.attention, SwaAttention):
                # A window starts anywhere in a page.
                seen = kind.attention.window - 1 + in_flight
                pages = np.minimum(pages, np.ceil(seen / block) + 1)
            size = pages * block * _kept(problem, kind, plans, 1)
        # The last group of a kind is filled up with layers that are not there.
        found.append(size * (-(-counts[kind] // group) * group / counts[kind]))
    return found


def _kept(problem: Problem, kind: Layer, plans: PlanTable, tokens: float) -> FloatArray:
    """Bytes that tokens keep in one layer, wherever they lie."""
    return sharding.session_bytes(problem.model, kind, plans, tokens, problem.assumptions)
