"""How long Hypothesis looks: briefly by default, at length with SEQUITUR_HYPOTHESIS=thorough."""

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow]
settings.register_profile("fast", max_examples=50, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("thorough", max_examples=2000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("SEQUITUR_HYPOTHESIS", "fast"))
