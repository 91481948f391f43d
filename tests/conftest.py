"""What holds for every test: busy machines are no failures, so property tests have no deadline.

`make test` draws the same examples every time, so that a commit passes or fails by itself; fresh examples are
drawn by `make fuzz`, which sets FASTDP_FUZZ.
"""

import os

from hypothesis import settings

settings.register_profile("gate", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None)
settings.load_profile("fuzz" if os.environ.get("FASTDP_FUZZ") else "gate")
