"""Narrow down a step between two numbers, with as few looks in between as possible."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from specs.errors import SpecError

T = TypeVar("T")

Reason = Callable[[T], float]
"""Continuous where it can be: positive on the near side of a step, negative on the far side."""

WITHIN = 1e-6
"""Relative width of a step between numbers that need not be whole, halved."""

_SHORT = 8
"""Whole numbers between which halving is as fast as anything."""

_NEIGHBOURS = 8
"""Whole numbers on both sides of the middle that are tried where it is refused."""

_HALVINGS = 4
"""Rounds of halving after a guess that has not paid."""

_ROUNDS = 60
"""Halvings after which any two floats of one sign have met at that width."""


@dataclass
class Step(Generic[T]):
    """Two values between which ``holds`` stops being true: true at ``near``, false at ``far``.

    ``at``      what is looked at, at a value; it is asked again for the same values
    ``reason``  given what is at the two values, the function whose sign changes between them, or
                ``None`` if there is none that is known
    ``whole``   whether only whole numbers are tried; neighbours then differ by one
    ``inverse`` whether the reason is straighter over the inverse of values, as times over rates
    """

    at: Callable[[float], T]
    near: float
    far: float
    holds: Callable[[T], bool]
    reason: Callable[[T, T], Reason[T] | None]
    whole: bool
    inverse: bool = False

    def narrow(self) -> tuple[float, float]:
        """Return two neighbours of the step.

        Values may be refused with ``SpecError``: a guess is given up then, and where the middle
        and its neighbours are refused, the ends are returned as they are.
        """
        patience = 0
        for _ in range(_ROUNDS):
            if self._done():
                break
            width = self._width
            if patience == 0:
                with suppress(SpecError):
                    for value in self._looks():
                        self._look(value)
            halved = self._done() or self._width <= width / 2
            # Where guesses do not pay, a few halvings come first.
            patience = 0 if halved else (patience or _HALVINGS) - 1
            if not halved and not any(self._accepts(value) for value in self._middles):
                break
        return self.near, self.far

    @property
    def _width(self) -> float:
        return abs(self.far - self.near)

    def _done(self) -> bool:
        most = 1.0 if self.whole else 2.5 * WITHIN * max(abs(self.near), abs(self.far))
        return self._width <= most

    @property
    def _middles(self) -> Iterator[float]:
        """Yield the middle, on the scale of ratios where neither end is 0, and its neighbours."""
        near, far = self.near, self.far
        middle = math.sqrt(near * far) if near > 0 and far > 0 else (near + far) / 2
        yield middle
        for apart in range(1, _NEIGHBOURS + 1) if self.whole else ():
            for value in (round(middle) - apart, round(middle) + apart):
                if min(near, far) < value < max(near, far):
                    yield float(value)

    def _accepts(self, value: float) -> bool:
        """Look at a value, unless it is refused."""
        try:
            self._look(value)
        except SpecError:
            return False
        return True

    def _look(self, value: float) -> None:
        """Move the end of the step that has what is at a value between them."""
        if self.whole:
            low, high = sorted((self.near, self.far))
            value = min(max(float(round(value)), low + 1), high - 1)
        if (value - self.near) * (self.far - value) <= 0:
            return
        if self.holds(self.at(value)):
            self.near = value
        else:
            self.far = value

    def _looks(self) -> Iterator[float]:
        """Yield a guess of the root of the reason, then values on both sides of a better one."""
        why = self.reason(self.at(self.near), self.at(self.far))
        if why is None or (self.whole and self._width <= _SHORT):
            return
        ends = [(self._turned(value), why(self.at(value))) for value in (self.near, self.far)]
        if not ends[0][1] > 0 > ends[1][1]:
            return
        guess = self._turned(_root(ends))
        if self.whole:
            guess = float(round(guess))
        yield guess
        better = self._turned(_root([*ends, (self._turned(guess), why(self.at(guess)))]))
        if self.whole:
            yield float(math.floor(better))
            yield float(math.floor(better) + 1)
        else:
            yield better * (1 - WITHIN)
            yield better * (1 + WITHIN)

    def _turned(self, value: float) -> float:
        return 1 / value if self.inverse and value > 0 else value


def _root(points: list[tuple[float, float]]) -> float:
    """Interpolate the place at which a function is 0, from two or three of its values.

    The inverse of the function is a line or a parabola. A place beyond the first two is none, and
    neither is one between equal values: the line between the first two is taken then.
    """
    (a, at_a), (b, at_b), *_ = points
    values = [value for _, value in points]
    if len(set(values)) == len(values):
        found = sum(
            place * math.prod(v / (v - value) for v in values if v != value)
            for place, value in points
        )
        if min(a, b) <= found <= max(a, b):
            return found
    return a + (b - a) * at_a / (at_a - at_b)
