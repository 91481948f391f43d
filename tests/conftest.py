"""What holds for every test: busy machines are no failures, so property tests have no deadline."""

from hypothesis import settings

settings.register_profile("fastdp", deadline=None)
settings.load_profile("fastdp")
