"""``python -m benchmarks [--quick]``: measure, and print one table beside the goals."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import measure

COLD_GOAL_S = 2.0
DECODE_GOAL_PER_S = 1e6
HYBRID_GOAL_PER_S = 2e5
PLACEMENTS_GOAL_S = 5.0
CALIBRATED_GOAL = 0.5


@dataclass(frozen=True)
class Row:
    """One line of the table; ``ratio`` is above 1 where the goal is met."""

    name: str
    value: str
    goal: str = ""
    ratio: float | None = None


def rows(runs: int, seconds: float) -> Iterator[Row]:
    """Measure one row after the other."""
    cold = measure.cold_rank_s(runs)
    yield Row(
        f"planner rank, cold, median of {runs}",
        f"{cold:.2f} s",
        f"≤ {COLD_GOAL_S:g} s",
        COLD_GOAL_S / cold,
    )
    measure.one_core()
    for kind, spec, goal in (
        ("dense", measure.DENSE, DECODE_GOAL_PER_S),
        ("MoE", measure.MOE, DECODE_GOAL_PER_S),
        ("five kinds", measure.HYBRID, HYBRID_GOAL_PER_S),
    ):
        rate = measure.decode_points_per_s(spec, seconds)
        yield Row(
            f"roofline decode, {kind}, one core",
            f"{rate:,.0f} points/s",
            f"≥ {goal:,.0f}/s",
            rate / goal,
        )
    for kind, spec in (("dense", measure.DENSE), ("MoE", measure.MOE)):
        with_engine = spec, seconds, "calibrated", measure.ENGINE
        ratio = measure.decode_points_per_s(*with_engine) / measure.decode_points_per_s(
            spec, seconds, more=measure.ENGINE
        )
        yield Row(
            f"calibrated decode, {kind}, one core",
            f"{ratio:.2f} x roofline",
            f"≥ {CALIBRATED_GOAL:g} x",
            ratio / CALIBRATED_GOAL,
        )
    for kind, spec in (("dense", measure.DENSE), ("MoE", measure.MOE)):
        count, rate = measure.feasible_plans_per_s(spec, seconds)
        yield Row(f"feasible set, {kind}, {count:,} plans", f"{rate:,.0f} plans/s")
    count, seconds_taken = measure.placements_s()
    yield Row(
        f"feasible set, 256 cards, {count:,} placed",
        f"{seconds_taken:.2f} s",
        f"≤ {PLACEMENTS_GOAL_S:g} s",
        PLACEMENTS_GOAL_S / seconds_taken,
    )
    own, child = measure.peak_memory_mb()
    yield Row("peak memory, planner rank", f"{child:,.0f} MB")
    yield Row("peak memory, these benchmarks", f"{own:,.0f} MB")


def main() -> None:
    """Print the table, a row as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs, less exact")
    quick = parser.parse_args().quick
    print(f"{'measured':<38} {'value':>20} {'goal':>14}  goal met by")
    for row in rows(runs=1 if quick else 5, seconds=0.3 if quick else 2.0):
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
        print(f"{row.name:<38} {row.value:>20} {row.goal:>14}  {ratio}", flush=True)


if __name__ == "__main__":
    main()
