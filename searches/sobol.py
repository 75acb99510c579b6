"""Sobol indices of the best cost: what share of its variance each leaf makes.

Saltelli's design: two independent samples A and B of n points, and for each leaf the sample A with
its column taken from B; n (leaves + 2) answers in all. The *first* index of a leaf is the share of
the variance that it makes alone, the *total* one the share in which it takes part. Estimated by
``scipy.stats.sobol_indices``.
"""

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
    first_ends: tuple[FloatArray, FloatArray]
    total_ends: tuple[FloatArray, FloatArray]


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

    The intervals are those of a bootstrap of the points; the same seed gives the same.
    """
    parts = values.reshape(leaves + 2, -1)
    n = parts.shape[1]
    first, total = _estimate(parts)
    drawn = np.random.default_rng(seed).integers(0, n, (_RESAMPLED, n))
    resampled = np.array([_estimate(parts[:, rows]) for rows in drawn])
    low, high = np.quantile(resampled, [(1 - _SURE) / 2, (1 + _SURE) / 2], axis=0)
    return Indices(first, total, (low[0], high[0]), (low[1], high[1]))


def _estimate(parts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """First and total indices from samples A, B and each A with a column of B, one a row."""
    from scipy.stats import sobol_indices

    func = {"f_A": parts[:1], "f_B": parts[1:2], "f_AB": parts[2:, None, :]}
    found = sobol_indices(func=func, n=parts.shape[1])
    return np.ravel(found.first_order), np.ravel(found.total_order)
