"""What plans ask of OR-Tools: enumerate tables, and find what cannot hold together."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from costmodels.plans import IntArray

Table = tuple[tuple[str, ...], IntArray]
"""Axes, and the allowed values of those axes as rows."""

Pattern = frozenset[str]
"""The names of all rules that one plan breaks."""


def solutions(domains: Mapping[str, Sequence[int]], tables: Sequence[Table]) -> dict[str, IntArray]:
    """Return every assignment of the axes that all tables allow, as columns in rising order.

    Enumeration runs on one worker, which is what CP-SAT supports. Duplicates would be a fault of
    the solver (they have happened) and raise ``RuntimeError``.
    """
    from ortools.sat.python import cp_model

    class Collect(cp_model.CpSolverSolutionCallback):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[list[int]] = []

        def on_solution_callback(self) -> None:
            self.found.append([self.value(v) for v in variables.values()])

    model = cp_model.CpModel()
    variables = {
        axis: model.new_int_var_from_domain(cp_model.Domain.from_values(list(values)), axis)
        for axis, values in domains.items()
    }
    for axes, rows in tables:
        model.add_allowed_assignments([variables[a] for a in axes], rows.tolist())
    solver = _one_worker()
    solver.parameters.enumerate_all_solutions = True
    collect = Collect()
    status = solver.solve(model, collect)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE):
        raise RuntimeError(f"CP-SAT ended with status {solver.status_name(status)}")
    found = np.array(collect.found, dtype=np.int64).reshape(len(collect.found), len(domains))
    unique = np.unique(found, axis=0)
    if len(unique) != len(found):
        raise RuntimeError(f"CP-SAT repeated {len(found) - len(unique)} solutions")
    return {axis: unique[:, i] for i, axis in enumerate(domains)}


def _one_worker() -> Any:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    # CP-SAT would take interrupts over, and leave them to end the process without a word.
    solver.parameters.catch_sigint_signal = False
    return solver


def cores(patterns: Sequence[Pattern], most: int) -> list[tuple[str, ...]]:
    """Return the smallest sets of rules that no plan keeps together, smallest first.

    ``patterns`` holds what each plan breaks. A set is a conflict when every plan breaks one of
    its rules; candidates are found by size, and each is then confirmed, and cut down to what
    is needed, as an assumption core of the model that lets a plan be chosen.
    """
    found: list[tuple[str, ...]] = []
    for candidate in _covers(patterns, most):
        core = _assumption_core(patterns, candidate)
        if core not in found:
            found.append(core)
    return sorted(found, key=lambda core: (len(core), sorted(core)))


def _covers(patterns: Sequence[Pattern], most: int) -> Iterator[tuple[str, ...]]:
    """Yield up to ``most`` minimal sets that hit every pattern, in order of size."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    names = sorted(set().union(*patterns))
    chosen = {name: model.new_bool_var(name) for name in names}
    for pattern in patterns:
        model.add_bool_or([chosen[name] for name in sorted(pattern)])
    model.minimize(sum(chosen.values()))
    solver = _one_worker()
    for _ in range(most):
        if solver.solve(model) != cp_model.OPTIMAL:
            return
        cover = tuple(name for name in names if solver.boolean_value(chosen[name]))
        yield cover
        model.add_bool_or([chosen[name].negated() for name in cover])


def _assumption_core(patterns: Sequence[Pattern], rules: Sequence[str]) -> tuple[str, ...]:
    """Confirm that no plan keeps all ``rules``; return a subset that is enough, in their order."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    plan = [model.new_bool_var(f"plan {i}") for i in range(len(patterns))]
    kept = {rule: model.new_bool_var(rule) for rule in rules}
    model.add_exactly_one(plan)
    for choice, pattern in zip(plan, patterns, strict=True):
        for rule in pattern & set(rules):
            model.add_implication(kept[rule], choice.negated())
    model.add_assumptions(list(kept.values()))
    solver = _one_worker()
    if solver.solve(model) != cp_model.INFEASIBLE:
        raise RuntimeError(f"rules {rules} do not conflict")
    enough = set(solver.sufficient_assumptions_for_infeasibility())
    return tuple(rule for rule in rules if kept[rule].index in enough)
