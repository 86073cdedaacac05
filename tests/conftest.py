"""Hypothesis settings for all tests: no deadlines on shared machines, failures that can be replayed."""

import os

from hypothesis import HealthCheck, settings

IS_INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
HAS_BOUNDS_CHECKS = os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0")

settings.register_profile(
    "nearcast",
    deadline=None,
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
    max_examples=10 if IS_INTERPRETED else 20 if HAS_BOUNDS_CHECKS else 50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("nearcast")
