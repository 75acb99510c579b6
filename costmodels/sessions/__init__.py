"""From step times to sessions: who is on time, and what an on-time session costs."""

from costmodels.sessions import burst, steady
from costmodels.sessions.outcome import BOUNDS, Outcomes
from costmodels.sessions.steady import Evaluate

WORKLOADS: dict[str, Evaluate] = {"burst": burst.outcomes, "steady": steady.outcomes}
"""How each kind of workload is evaluated."""

__all__ = ["BOUNDS", "WORKLOADS", "Evaluate", "Outcomes"]
