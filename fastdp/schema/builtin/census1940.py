"""Transforms of the 1940 census of the NIST 2018 challenge: wages and house values as few codes
(McKenna 2018).

999998 (INCWAGE) and 9999998, 9999999 (VALUEH) are the census' codes for missing values.
"""

from collections.abc import Callable, Sequence

import numpy as np

# A value is of the class of the first of these numbers that divides it.
_CLASS_STEPS = (100, 20, 50, 25, 10, 5, 2)
# Wages and house values in dollars: the largest one with a bin of its own, and the codes that the
# census uses for missing values.
_WAGE_TOP = 5_000
_WAGE_MISSING = 999_998
_VALUE_TOP = 25_000
_VALUE_MISSING = 9_999_998
_VALUE_LAST = 9_999_999


def _wage_class(cents: np.ndarray) -> np.ndarray:
    """Position (0..6) of the first number in (100, 20, 50, 25, 10, 5, 2) that divides the value; 7
    if none does."""
    out = np.full(len(cents), 7, dtype=np.int64)
    for code in reversed(range(len(_CLASS_STEPS))):
        out[cents % _CLASS_STEPS[code] == 0] = code
    return out


class Wage:
    """A wage as two codes. A is wage // 100 for wages under 5000, 50 for wages of 5000 and more, 51
    where the wage is missing. B is wage % 100, or with `classes` the class of divisibility (0..7,
    see `_wage_class`); for wages of 5000 and more B is 0. A = 50 is decoded as `top`."""

    least_top = _WAGE_TOP
    rough_parts: int | None = None

    def __init__(self, classes: bool):
        self.classes = classes

    def sizes(self, field) -> tuple[int, ...]:
        return 52, 8 if self.classes else 100

    def reach(self, field) -> None:
        """Values have no largest one."""

    def split(self, field, values: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        good = (values >= 0) & (values <= _WAGE_MISSING)
        values = np.where(good, values, 0)
        low = values < _WAGE_TOP
        a = np.where(low, values // 100, np.where(values == _WAGE_MISSING, 51, 50))
        b = _wage_class(values) if self.classes else values % 100
        return [a, np.where(low, b, 0)], good

    def join(
        self, field, parts: Sequence[np.ndarray], uniform: Callable[[str], np.ndarray]
    ) -> np.ndarray:
        a, b = parts
        if self.classes:
            classes = _wage_class(np.arange(100))
            order = np.argsort(classes, kind="stable")
            lengths = np.bincount(classes, minlength=8)
            starts = np.cumsum(lengths) - lengths
            pick = np.minimum((uniform("class") * lengths[b]).astype(np.int64), lengths[b] - 1)
            b = order[starts[b] + pick]
        top = _WAGE_TOP + 1 if field.top is None else field.top
        return np.where(a < 50, a * 100 + b, np.where(a == 51, _WAGE_MISSING, top))


class HouseValue:
    """A house value as one code: value // 5 under 25000, code 5000 for larger values (decoded as
    `top`). Codes 5001 and 5002 are the two values that mean missing."""

    least_top = _VALUE_TOP
    rough_parts: int | None = None

    def sizes(self, field) -> tuple[int, ...]:
        return (_VALUE_TOP // 5 + 3,)

    def reach(self, field) -> None:
        """Values have no largest one."""

    def split(self, field, values: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        good = (values >= 0) & (values <= _VALUE_LAST)
        code = np.where(values < _VALUE_TOP, values // 5, 5_000)
        code = np.where(values >= _VALUE_MISSING, values - _VALUE_MISSING + 5_001, code)
        return [np.where(good, code, 0)], good

    def join(
        self, field, parts: Sequence[np.ndarray], uniform: Callable[[str], np.ndarray]
    ) -> np.ndarray:
        (code,) = parts
        value = np.where(code < 5_000, code * 5, _VALUE_TOP if field.top is None else field.top)
        return np.where(code > 5_000, code - 5_001 + _VALUE_MISSING, value)


_WAGES = {"incwage-classes": Wage(True), "incwage-mod": Wage(False)}
TRANSFORMS: dict[str, Wage | HouseValue] = {**_WAGES, "valueh": HouseValue()}
