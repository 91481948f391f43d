"""Which builds may count together: the same sources, and on the same platform the same kernels."""

from itertools import product

import pytest

from fastdp.engines import build as builds
from fastdp.errors import DataError


@pytest.mark.parametrize("sources, platform, kernels", list(product([True, False], repeat=3)))
def test_what_must_be_the_same(sources, platform, kernels):
    here = dict(builds.build())
    same = {"sources": sources, "platform": platform, "kernels": kernels}
    asked = {key: value if same[key] else value + "x" for key, value in here.items()}
    if sources and (kernels or not platform):
        builds.check(asked)
    else:
        with pytest.raises(DataError, match="another build of fastdp"):
            builds.check(asked)
