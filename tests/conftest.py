"""What holds for every test: busy machines are no failures, so property tests have no deadline and may draw
slowly.

`make test` draws the same examples every time, so that a commit passes or fails by itself; fresh examples are
drawn by `make fuzz`, which sets FASTDP_FUZZ.
"""

import os

from hypothesis import HealthCheck, settings

PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("gate", derandomize=True, **PATIENT)
settings.register_profile("fuzz", **PATIENT)
settings.load_profile("fuzz" if os.environ.get("FASTDP_FUZZ") else "gate")
