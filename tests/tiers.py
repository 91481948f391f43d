"""Which tests `make test` runs and which wait for `make test-slow`.

A case takes its place in `make test` if it is the only guard of a promise, or if it takes less than
about two seconds on one core. Further cases of a test that has its guard there are slow.
"""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_cases(*cases: Any) -> list[Any]:
    """These cases of a parametrised test, for `make test-slow`. A tuple is a case of several
    arguments."""
    return [_slow(case) for case in cases]


def _slow(case: Any) -> Any:
    if isinstance(case, type(pytest.param())):
        return case
    arguments = case if isinstance(case, tuple) else (case,)
    return pytest.param(*arguments, marks=pytest.mark.slow)


def first(count: int, cases: Iterable[Any]) -> list[Any]:
    """The cases of a parametrised test: so many for `make test`, the others for `make test-slow`."""
    listed = list(cases)
    return listed[:count] + slow_cases(*listed[count:])
