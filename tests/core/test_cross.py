"""The vectors that `make test-arm` takes to another processor can be made."""

import numpy as np

from tools.cross import modelvectors
from tools.cross.casefile import File


def test_a_call_of_the_core_is_noted_as_the_package_makes_it():
    """What notes it stands between the package and its core. It broke when arguments got names, and
    nothing but `make test-arm`, which needs an emulator, said so."""
    out = File()
    modelvectors.sample_cases(out, np.random.default_rng(7))
    assert sum(map(len, out.cases.values())) == 4
