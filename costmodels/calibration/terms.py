"""The terms of a calibration: named inputs in which the time of a pass is linear.

A *loss* is a peak over what is reached, 1 at least, and enters the assumptions as the share 1/loss;
a *factor* multiplies stated start-up times; *seconds* are times of their own; the *share* of the
time of prompts that decode steps carry, 1 at most, multiplies that time. Reads and computing
add up, so that the rate of a product rises with its rows m as m / (m + m½): few rows wait for the
weights, many for the matrix units, with m½ where both take equally long. Experts follow the same
curve in their tokens. Sources of the priors: closed forms fitted to kernel timings of H100, H200,
B200 and GB200 (NVIDIA AIConfigurator's tables, Apache-2.0), as ``docs/calibration.md`` lists.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from specs.assumptions import (
    Assumptions,
    Efficiency,
    Overheads,
    PhaseEfficiency,
    PhaseOverheads,
    StartUp,
)
from specs.problem import Problem

Kind = Literal["loss", "factor", "seconds", "share"]


@dataclass(frozen=True)
class Term:
    """One named input.

    ``paths``   leaves of the assumptions that it sets
    ``prior``   where a fit is pulled to
    """

    name: str
    kind: Kind
    paths: tuple[str, ...]
    prior: float

    @property
    def least(self) -> float:
        """Smallest value that makes sense."""
        return 1.0 if self.kind == "loss" else 0.0

    @property
    def most(self) -> float:
        """Largest value that makes sense."""
        return 1.0 if self.kind == "share" else float("inf")

    def bounded(self, value: float) -> float:
        """Value, or the nearest that makes sense."""
        return min(max(value, self.least), self.most)

    def leaf(self, value: float) -> float:
        """Value of the leaves."""
        return 1.0 / value if self.kind == "loss" else value


def _losses(phase: str) -> tuple[Term, ...]:
    share = f"efficiency.{phase}"
    prefill = phase == "prefill"
    named = {
        "weights": ("memory",),
        "experts": ("experts_memory",),
        "context": ("context_memory",),
        "dense_compute": ("attention_projection", "ffn", "head"),
        "expert_compute": ("experts",),
        "attention_compute": ("attention",),
        "network": ("network",),
        "alltoall": ("alltoall",),
        "network_across": ("network_across",),
        "alltoall_across": ("alltoall_across",),
    }
    priors = {
        # Achieved shares of HBM 0.83 in products, 0.85 in decode attention; of the matrix peak
        # 0.7 in dense products, 0.57 in causal attention; experts lie below dense products.
        "weights": 1.25,
        "experts": 1.5,
        "context": 1.4 if not prefill else 1.25,
        "dense_compute": 1.7 if prefill else 1.3,
        "expert_compute": 2.5 if prefill else 1.5,
        "attention_compute": 2.0 if prefill else 1.3,
        "network": 1.5,
        "alltoall": 1.5,
        # No kernels were timed beyond a server: as inside one, on the links that are stated there.
        "network_across": 1.5,
        "alltoall_across": 1.5,
    }
    return tuple(
        Term(f"{phase}.{name}", "loss", tuple(f"{share}.{f}" for f in fields), priors[name])
        for name, fields in named.items()
    )


def _seconds(phase: str) -> tuple[Term, ...]:
    priors = {
        "decode": {"step": 1e-3, "sequence": 3e-6, "layer": 15e-6, "moe_layer": 15e-6,
                   "token_layer": 0.03e-6},
        "prefill": {"step": 5e-3, "layer": 30e-6, "moe_layer": 30e-6, "token_layer": 0.1e-6},
    }[phase]  # fmt: skip
    return tuple(
        Term(f"{phase}.{name}", "seconds", (f"overheads.{phase}.{name}",), prior)
        for name, prior in priors.items()
    )


BOTH = ("decode", "prefill")

CARRIED = "carried"
"""Name of the share of the time of prompts that decode steps carry."""

TERMS: dict[str, Term] = {
    term.name: term
    for term in (
        *_losses("decode"),
        *_seconds("decode"),
        *_losses("prefill"),
        *_seconds("prefill"),
        Term(CARRIED, "share", (CARRIED,), 0.9),
        Term("start_up.reduce", "factor", ("start_up.reduce",), 2.0),
        Term("start_up.alltoall", "factor", ("start_up.alltoall",), 3.0),
        Term("start_up.reduce_across", "factor", ("start_up.reduce_across",), 2.0),
        Term("start_up.alltoall_across", "factor", ("start_up.alltoall_across",), 3.0),
    )
}
"""Every term by its name."""

PRIORS: dict[str, float] = {name: term.prior for name, term in TERMS.items()}
"""Where a fit without timings of kernels starts from, by term."""


def _of(*names: str) -> tuple[str, ...]:
    return tuple(name for name in TERMS if name in names or name.split(".")[0] in names)


SETS: dict[str, tuple[str, ...]] = {
    "decode": _of("decode", "start_up"),
    "prefill": _of("prefill"),
    "dense": ("decode.weights", "decode.dense_compute"),
    "experts": ("decode.experts", "decode.expert_compute"),
    "attention": ("decode.context", "decode.attention_compute"),
    "launch": ("decode.layer", "decode.moe_layer"),
} | {name: (name,) for name in TERMS}
"""Terms that a factor of an effect multiplies, by the name of the factor."""


def apply(problem: Problem, values: Mapping[str, float]) -> Problem:
    """Return the problem with the assumptions that some values of terms stand for.

    Reads and computing add up, and what a spec says of efficiencies and overheads is replaced.
    """
    tree: dict[str, Any] = {}
    for name, value in values.items():
        term = TERMS[name]
        for path in term.paths:
            *parents, leaf = path.split(".")
            here = tree
            for parent in parents:
                here = here.setdefault(parent, {})
            here[leaf] = term.leaf(term.bounded(value))
    efficiency, overheads = tree.get("efficiency", {}), tree.get("overheads", {})
    changed = {
        "overlap": "added",
        "overhead": 0.0,
        "layer_launch": 0.0,
        "efficiency": Efficiency(
            **{phase: PhaseEfficiency(**efficiency.get(phase, {})) for phase in BOTH}
        ),
        "overheads": Overheads(
            **{phase: PhaseOverheads(**overheads.get(phase, {})) for phase in BOTH}
        ),
        "start_up": StartUp(**tree.get("start_up", {})),
        "carried": tree.get("carried", 1.0),
    }
    assumptions: Assumptions = problem.assumptions.model_copy(update=changed)
    return problem.model_copy(update={"assumptions": assumptions})
