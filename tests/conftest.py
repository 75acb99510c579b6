"""Settings of all tests: properties draw afresh on a desk, and the same cases in CI."""

import os

from hypothesis import HealthCheck, settings

_SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.filter_too_much]

settings.register_profile("desk", deadline=None, suppress_health_check=_SLOW_DRAWS)
settings.register_profile(
    "ci", settings.get_profile("desk"), derandomize=True, database=None, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
