"""What a user may say of the load: sessions, their lengths, their limits, and failures."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from specs.base import Count, CountOrZero, Name, Spec
from specs.units import Fraction, Seconds, SecondsOrZero, Tokens, TokensAtLeastOne

MOST_SESSIONS = 10_000
"""Sessions of a burst, each of which is followed to its end."""


class SessionClass(Spec):
    """Sessions of one shape: what they hold, send, ask for, and by when."""

    name: Name
    """Name of the class, used in paths."""
    sessions: Count | None = None
    """Sessions that arrive together; ``burst`` only."""
    share: Fraction | None = None
    """Share of the sessions that belong to this class; ``steady`` only, 1 if not given."""
    context: Tokens = 0
    """Tokens already held in KV when the session starts."""
    prompt: Tokens = 0
    """Tokens to prefill."""
    generate: TokensAtLeastOne
    """Tokens to produce."""
    deadline: Seconds | None = None
    """Latest end, counted from the start of the session."""
    ttft: Seconds | None = None
    """Latest first token, counted from the start of the session."""
    tpot: Seconds | None = None
    """Most time per token after the first, averaged over the session."""

    @property
    def peak_context(self) -> int:
        """Tokens held when the session ends."""
        return self.context + self.prompt + self.generate


class Failure(Spec):
    """Something fails: instances that use it stop, and start their running sessions again."""

    card: CountOrZero
    """Position of the card that fails, counted from 0 in order of placement."""
    domain: Name = "card"
    """Failure domain of the machine that fails around this card, e.g. ``server``."""
    at: SecondsOrZero
    """Moment of the failure."""
    stall: SecondsOrZero
    """Time from the failure until the instance works again."""


class Workload(Spec):
    """The load: a burst of sessions at one moment, or sessions always waiting."""

    name: str = ""
    """Name of the workload."""
    title: str = ""
    """One line for people."""
    sources: tuple[str, ...] = ()
    """Where the figures come from."""
    kind: Literal["burst", "steady"]
    """All sessions at one moment, or sessions always waiting."""
    serving: Literal["one_at_a_time", "continuous_batching"] = "continuous_batching"
    """Whether an instance finishes a session before the next, or advances all together."""
    on_time_share: Fraction = 1.0
    """Least share of the sessions that must be on time."""
    concurrency: Count | None = None
    """``steady`` only: sessions in flight over the whole deployment; as many as fit otherwise."""
    classes: Annotated[tuple[SessionClass, ...], Field(min_length=1, max_length=64)]
    """The classes of sessions."""
    failures: tuple[Failure, ...] = ()
    """Failures, ``burst`` only."""

    @model_validator(mode="after")
    def _fits_kind(self) -> Self:
        names = [c.name for c in self.classes]
        if len(set(names)) != len(names):
            raise ValueError(f"class names must differ, got {names}")
        if self.kind == "burst":
            self._check_burst()
        else:
            self._check_steady()
        return self

    def _check_burst(self) -> None:
        if self.session_count > MOST_SESSIONS:
            raise ValueError(
                f"a burst holds at most {MOST_SESSIONS} sessions, got {self.session_count}; "
                "a lasting load is kind steady"
            )
        for c in self.classes:
            if c.sessions is None or c.share is not None:
                raise ValueError(f"class {c.name!r} of a burst takes sessions, and no share")
        if self.concurrency is not None:
            raise ValueError("concurrency belongs to kind steady, not to burst")

    def _check_steady(self) -> None:
        for c in self.classes:
            if c.sessions is not None:
                raise ValueError(f"class {c.name!r} of kind steady takes share, not sessions")
            if c.share is None and len(self.classes) > 1:
                raise ValueError(f"class {c.name!r} needs a share, as there are several classes")
        total = sum(c.share or 1.0 for c in self.classes)
        if abs(total - 1) > 1e-6:  # shares are written with few digits
            raise ValueError(f"the shares of the classes must sum to 1, got {total:g}")
        if self.failures:
            raise ValueError("failures belong to kind burst, not to steady")
        if self.serving == "one_at_a_time" and self.concurrency is not None:
            raise ValueError("concurrency needs serving continuous_batching")

    @property
    def session_count(self) -> int:
        """Sessions of a burst."""
        return sum(c.sessions or 0 for c in self.classes)
