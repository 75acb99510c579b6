"""The classes of a steady load, and what they are on average."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from costmodels.plans import FloatArray
from specs.problem import Problem


@dataclass(frozen=True)
class Mix:
    """The classes in flight together.

    ``arriving``  share of the sessions that belong to each class
    ``present``   share of those in flight: a class that generates longer is present for longer
    """

    problem: Problem

    @cached_property
    def arriving(self) -> FloatArray:
        return np.array([c.share or 1.0 for c in self.problem.workload.classes])

    @cached_property
    def generate(self) -> FloatArray:
        return np.array([float(c.generate) for c in self.problem.workload.classes])

    @cached_property
    def present(self) -> FloatArray:
        weight: FloatArray = self.arriving * self.generate
        return weight / weight.sum()

    @cached_property
    def prompt(self) -> float:
        """Tokens of a prompt."""
        return float(self.arriving @ [float(c.prompt) for c in self.problem.workload.classes])

    @property
    def context(self) -> float:
        """Tokens held per session in flight, by the ``steady_context`` assumption."""
        start = [float(c.context + c.prompt) for c in self.problem.workload.classes]
        if self.problem.assumptions.steady_context == "start":
            return float(self.present @ start)
        return float(self.present @ (np.array(start) + self.generate / 2))
