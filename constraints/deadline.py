"""Whether sessions can be, and are, on time."""

from constraints.base import Case, Constraint
from costmodels.plans import FloatArray
from costmodels.sessions.burst import needed_sessions
from specs.problem import Problem
from specs.space import AXES


def has_limits(problem: Problem) -> bool:
    """Whether any class of sessions states a time limit."""
    return any(c.deadline or c.ttft or c.tpot for c in problem.workload.classes)


class Deadline(Constraint):
    """Sessions that have an instance to themselves would be on time: a bound that prunes early."""

    name = "deadline"
    title = "A session that has an instance to itself would be on time"
    reads = tuple(AXES)
    unit = "seconds"
    structural = False
    implied_by = "on_time"

    def applies(self, problem: Problem) -> bool:
        return has_limits(problem)

    def margin(self, case: Case) -> FloatArray:
        return case.fastest

    def reason(self, case: Case) -> str:
        late = -case.fastest[0] * 1e3
        return f"even a session that has an instance to itself would be {late:.3f} ms late"


class OnTime(Constraint):
    """Enough sessions are on time in the time line of the deployment."""

    name = "on_time"
    title = "Enough sessions end on time"
    reads = tuple(AXES)
    unit = "seconds"
    structural = False

    def applies(self, problem: Problem) -> bool:
        return has_limits(problem)

    def margin(self, case: Case) -> FloatArray:
        return case.outcomes.slack_s

    def reason(self, case: Case) -> str:
        late = -case.outcomes.slack_s[0] * 1e3
        on_time = case.outcomes.on_time[0]
        if case.problem.workload.kind == "burst":
            needed = needed_sessions(case.problem)
            total = case.problem.workload.session_count
            return (
                f"{on_time:.0f} of {total} sessions on time, {needed} needed; the last of those "
                f"would be {late:.3f} ms late"
            )
        share = case.problem.workload.on_time_share
        return (
            f"{on_time:.0%} of the sessions on time, {share:.0%} needed; the last of those would "
            f"miss its limit by {late:.3f} ms"
        )


DEADLINE: tuple[Constraint, ...] = (Deadline(), OnTime())
