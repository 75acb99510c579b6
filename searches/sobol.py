"""Sobol indices of the best cost: what share of its variance each leaf makes.

Saltelli's design: two independent samples A and B of n points, and for each leaf the sample A with
its column taken from B; n (leaves + 2) answers in all. The *first* index of a leaf is the share of
the variance that it makes alone, the *total* one the share in which it takes part. Estimated by
``scipy.stats.sobol_indices``.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from costmodels.plans import FloatArray

LEAST, MOST = 16, 4096
"""Points of a sample; powers of two."""

_SURE = 0.95

_RESAMPLED = 300
"""Bootstrap samples that an interval is taken from."""


@dataclass(frozen=True)
class Indices:
    """Indices of each leaf with the ends of their 95 % intervals, shapes ``(leaves,)``."""

    first: FloatArray
    total: FloatArray
    first_ends: tuple[FloatArray, ...]
    total_ends: tuple[FloatArray, ...]


def design(leaves: int, n: int, seed: int) -> FloatArray:
    """Return the points at which the function is asked, in [0, 1), shape ``(points, leaves)``.

    The sample A, the sample B, then for each leaf A with that column of B. ``n`` is a power of 2.
    """
    from scipy.stats import qmc

    both = qmc.Sobol(2 * leaves, rng=seed).random(n)
    a, b = both[:, :leaves], both[:, leaves:]
    mixed = np.repeat(a[None], leaves, axis=0)
    for leaf in range(leaves):
        mixed[leaf, :, leaf] = b[:, leaf]
    return np.concatenate([a, b, *mixed])


def indices(values: FloatArray, leaves: int, seed: int) -> Indices:
    """Estimate the indices from the values at the points of :func:`design`, in its order.

    The values must not all be the same.
    """
    from scipy.stats import DegenerateDataWarning, sobol_indices

    n = values.size // (leaves + 2)
    shaped = values.reshape(leaves + 2, n)
    parts = {"f_A": shaped[:1], "f_B": shaped[1:2], "f_AB": shaped[2:, None, :]}
    found = sobol_indices(func=parts, n=n, rng=seed)
    first, total = np.ravel(found.first_order), np.ravel(found.total_order)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        # A leaf that moves nothing has no spread.
        warnings.simplefilter("ignore", DegenerateDataWarning)
        spread = found.bootstrap(confidence_level=_SURE, n_resamples=_RESAMPLED)
    intervals = (part.confidence_interval for part in (spread.first_order, spread.total_order))
    first_ends, total_ends = (
        tuple(np.where(np.isnan(end), index, np.ravel(end)) for end in (ends.low, ends.high))
        for index, ends in zip((first, total), intervals, strict=True)
    )
    return Indices(first, total, first_ends, total_ends)
