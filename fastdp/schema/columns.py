"""The kinds of columns a schema is made of: which code stands for which values.

Codes of every column are numbered in this order: its values or bins as stated, the overflow code,
the null code. The last two exist only if the column's policy asks for them (`"code"`). Nothing here
looks at data: a column is a public description.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from ..errors import SchemaError
from . import dtypes, epoch
from .canonical import Scalar, canonical_value
from .coding import Bins, Coding, Listed, Range
from .within_bin import Grid, Rank, check_inside, fail, plain_inside, with_atoms

MAX_CODES = 1 << 31
OF_USERS = ("constant", "repeated", "free")
"""What a schema may say of a column's values in the rows of one user (docs/guide/users.md)."""


def without_none(**options: Any) -> dict[str, Any]:
    """The options that are not None."""
    return {key: value for key, value in options.items() if value is not None}


@dataclass(frozen=True)
class Policy:
    """What happens to a null or to a value outside the domain.

    `code`: it gets a separate code; `drop`: its row is left out; `clamp`: it counts as the nearest
    value of the domain (only for overflow of numbers); `value`: it counts as the named value of the
    domain.
    """

    action: str = "code"
    value: Scalar | None = None

    def to_plain(self) -> Any:
        return {"value": self.value} if self.action == "value" else self.action


OWN_CODE = Policy()


@dataclass(frozen=True)
class Tail:
    """Public distribution from which decoding draws values in an open bin: the distance of the
    value from the bin's finite edge.

    `exponential`: exponential with the given mean (geometric for whole numbers), cut off at the
    column's min or max; `uniform`: uniform over distances from 0 to `width`.
    """

    law: str = "exponential"
    mean: float | None = None
    width: float | None = None

    def to_plain(self) -> dict[str, Any]:
        return without_none(law=self.law, mean=self.mean, width=self.width)


@dataclass(frozen=True, kw_only=True)
class SourceColumn:
    """A column of the source as the schema describes it: its type and its policies."""

    kind: ClassVar[str] = ""
    name: str
    source: str
    dtype: str
    null: Policy = OWN_CODE
    overflow: Policy = OWN_CODE
    nan: str = "null"
    user: str | None = None
    note: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """The TOML table: kind, source, dtype, the keys of the kind, policies, user and note."""
        source = None if self.source == self.name else self.source
        nan = None if self.nan == "null" else self.nan
        head = without_none(kind=self.kind, source=source, dtype=self.dtype) | self._own_plain()
        policies = {"null": self.null.to_plain(), "overflow": self.overflow.to_plain()}
        return head | policies | without_none(nan=nan, user=self.user, note=self.note)

    def _own_plain(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, kw_only=True)
class Column(SourceColumn):
    """One attribute of the domain: `size` codes, read from the source column `source`."""

    @property
    def parts(self) -> tuple[Column, ...]:
        """The code columns that it is encoded as: itself."""
        return (self,)

    @property
    def base(self) -> int:
        """Number of codes that stand for values or bins."""
        raise NotImplementedError

    @property
    def can_overflow(self) -> bool:
        return True

    @property
    def overflow_code(self) -> int | None:
        """The code of values outside the domain, None if they have no code of their own."""
        return self.base if self.overflow.action == "code" and self.can_overflow else None

    @property
    def null_code(self) -> int | None:
        """The code of nulls, None if they have no code of their own."""
        return None if self.null.action != "code" else self.base + (self.overflow_code is not None)

    @property
    def size(self) -> int:
        """Number of codes, including those for overflow and null if the column has them."""
        return self.base + (self.overflow_code is not None) + (self.null_code is not None)

    @property
    def code_dtype(self) -> np.dtype:
        """The smallest unsigned type that holds the codes."""
        return np.dtype(
            np.uint8 if self.size <= 256 else np.uint16 if self.size <= 65536 else np.uint32
        )

    def base_labels(self) -> list[str]:
        raise NotImplementedError

    def labels(self) -> list[str]:
        """A text for every code, for people to read."""
        labels = self.base_labels()
        if self.overflow_code is not None:
            labels.append("(other)")
        if self.null_code is not None:
            labels.append("(null)")
        return labels

    def label(self, code: int) -> str:
        """The text of one code."""
        return self.labels()[code]

    def code_of(self, value: Any) -> int | None:
        """The code of one value of the domain; None if the value has no code. Policies are not
        applied."""
        raise NotImplementedError

    @property
    def coding(self) -> Coding | None:
        """How its numbers or listed values become codes; None: the kind has a way of its own."""
        return None

    @property
    def overflow_target(self) -> int | None:
        """The code that values outside the domain are counted under; None if they are dropped or
        clamped."""
        if self.overflow.action == "value":
            return self.code_of(self.overflow.value)
        return self.overflow_code

    def _check_policies(self, expected: str, clamps: bool = True) -> None:
        """Raise SchemaError if a policy clamps what cannot be clamped, or names a value without a
        code."""
        for where, policy in (("null", self.null), ("overflow", self.overflow)):
            if policy.action == "clamp" and (where == "null" or not clamps):
                raise fail(
                    self.name,
                    where,
                    "'clamp' needs numbers that overflow; use code, drop or a value",
                )
            if policy.action == "value" and self.code_of(policy.value) is None:
                raise fail(self.name, where, f"{policy.value!r} is not {expected}")


@dataclass(frozen=True, kw_only=True)
class Categorical(Column):
    """A public list of values; code i stands for `values[i]`, shown as `names[i]`."""

    kind: ClassVar[str] = "categorical"
    values: tuple[Scalar, ...] = ()
    names: tuple[str, ...] | None = None
    other: Scalar | None = None
    _codes: Mapping[Scalar, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.values:
            raise fail(
                self.name, "values", "the list is empty; list every value that the column may take"
            )
        listed = enumerate(self.values)
        values = tuple(canonical_value(self.name, f"values[{i}]", v, self.dtype) for i, v in listed)
        codes = {v: i for i, v in enumerate(values)}
        if len(codes) != len(values):
            twice = next(v for i, v in enumerate(values) if codes[v] != i)
            raise fail(self.name, "values", f"{twice!r} is listed twice")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "_codes", codes)
        if self.names is not None and len(self.names) != len(values):
            raise fail(self.name, "names", f"expected {len(values)}, one name per value")
        if self.other is not None:
            object.__setattr__(
                self, "other", canonical_value(self.name, "other", self.other, self.dtype)
            )
        self._check_policies("among the listed values", clamps=False)

    @property
    def base(self) -> int:
        return len(self.values)

    @property
    def coding(self) -> Listed:
        return Listed(self.values)

    def base_labels(self) -> list[str]:
        return list(self.names) if self.names is not None else [str(v) for v in self.values]

    def code_of(self, value: Any) -> int | None:
        try:
            return self._codes.get(canonical_value(self.name, "value", value, self.dtype))
        except SchemaError:
            return None

    def _own_plain(self) -> dict[str, Any]:
        names = None if self.names is None else list(self.names)
        return without_none(values=list(self.values), names=names, other=self.other)


@dataclass(frozen=True, kw_only=True)
class Integer(Column):
    """The whole numbers from `min` to `max`; code i stands for min + i."""

    kind: ClassVar[str] = "integer"
    min: int = 0
    max: int = 0

    def __post_init__(self) -> None:
        if dtypes.family(self.dtype) not in ("int", "float", "string", "decimal"):
            raise fail(self.name, "dtype", f"{self.dtype} cannot hold whole numbers")
        if not -(1 << 63) <= self.min or not self.max < 1 << 63:
            raise fail(self.name, "max", "min and max must fit a signed 64-bit integer")
        if self.max < self.min:
            raise fail(self.name, "max", f"{self.max} is below min = {self.min}")
        low, high = dtypes.whole_range(self.dtype)
        if self.min < low or self.max > high:
            raise fail(self.name, "dtype", f"{self.min}..{self.max} does not fit {self.dtype}")
        self._check_policies("between min and max")

    @property
    def base(self) -> int:
        return self.max - self.min + 1

    @property
    def coding(self) -> Range:
        return Range(self.min, self.base)

    def base_labels(self) -> list[str]:
        return [str(v) for v in range(self.min, self.max + 1)]

    def label(self, code: int) -> str:
        return {self.overflow_code: "(other)", self.null_code: "(null)"}.get(code) or str(
            self.min + code
        )

    def code_of(self, value: Any) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            return None
        return int(value) - self.min if self.min <= value <= self.max and value % 1 == 0 else None

    def _own_plain(self) -> dict[str, Any]:
        return {"min": self.min, "max": self.max}


@dataclass(frozen=True, kw_only=True)
class Numeric(Column):
    """Numbers in bins `[edges[i], edges[i+1])` with public edges; the first and last edge may be
    infinite.

    For dates and times (`dtype`), edges are whole days or seconds since 1970, in UTC if the type
    has a zone.

    A decoded value is uniform over its bin. In an open bin it follows `tail` (`lower_tail` in the
    lowest bin), by default exponential with the width of the neighbouring bin as mean. All decoded
    values lie within `min` and `max`. They are whole numbers if `whole` is set (always for integer
    types), else rounded to `digits` decimals if `digits` is set. If the edges are finite and
    overflow has a code, that code is decoded by `tail` if one is stated, else as null.

    `atoms`: single values that are bins of their own ("private": the run finds them). `grids`:
    steps that shares of the values fall on. `means`: the mean value of each bin, to which decoding
    keeps ("private": the run releases them). `rank`: the column whose ranks within bins this one
    shares.
    """

    kind: ClassVar[str] = "numeric"
    edges: tuple[float, ...] = ()
    min: float | None = None
    max: float | None = None
    tail: Tail | None = None
    lower_tail: Tail | None = None
    whole: bool = False
    digits: int | None = None
    atoms: tuple[float, ...] | str = ()
    grids: tuple[Grid, ...] = ()
    means: tuple[float, ...] | str | None = None
    rank: Rank | None = None

    def __post_init__(self) -> None:
        edges = tuple(float(e) for e in self.edges)
        object.__setattr__(self, "edges", edges)
        if dtypes.family(self.dtype) in ("int", "date", "timestamp"):
            object.__setattr__(self, "whole", True)
        if isinstance(self.atoms, tuple) and self.atoms and len(edges) > 1:
            edges = with_atoms(self)
            object.__setattr__(self, "edges", edges)
        if len(edges) < 2:
            raise fail(self.name, "edges", "expected at least two edges")
        for i, (a, b) in enumerate(pairwise(edges)):
            if not a < b:
                raise fail(
                    self.name, f"edges[{i + 1}]", f"edges must increase, but {b:g} follows {a:g}"
                )
        if dtypes.family(self.dtype) == "bool":
            raise fail(self.name, "dtype", f"{self.dtype} cannot hold numbers")
        if self.timely and not all(e % 1 == 0 for e in edges if math.isfinite(e)):
            raise fail(
                self.name,
                "edges",
                "edges of times must be whole seconds, edges of dates whole days",
            )
        if all(map(math.isinf, edges)):
            raise fail(self.name, "edges", "at least one edge must be finite")
        inner = [e for e in edges if math.isfinite(e)]
        if self.min is not None and self.min >= inner[0] and math.isinf(edges[0]):
            raise fail(self.name, "min", "the lowest bin is empty; remove its edge or lower min")
        if self.max is not None and math.isinf(edges[-1]) and self.max < inner[-1]:
            raise fail(self.name, "max", "the highest bin is empty; remove its edge or raise max")
        if self.min is not None and self.max is not None and self.max < self.min:
            raise fail(self.name, "max", f"{self.max:g} is below min = {self.min:g}")
        self._check_policies("in any bin")
        if self.digits is not None and not 0 <= self.digits <= 15:
            raise fail(self.name, "digits", "must lie in 0..15")
        if self.whole:
            for i, (a, b) in enumerate(pairwise(edges)):
                if math.isfinite(a) and math.isfinite(b) and math.ceil(a) >= math.ceil(b):
                    raise fail(self.name, f"edges[{i + 1}]", "the bin contains no whole number")
        check_inside(self)

    @property
    def timely(self) -> bool:
        """Whether the column's values are dates or times."""
        return dtypes.family(self.dtype) in ("date", "timestamp")

    @property
    def base(self) -> int:
        return len(self.edges) - 1

    @property
    def can_overflow(self) -> bool:
        return (
            math.isfinite(self.edges[0]) or math.isfinite(self.edges[-1]) or self.nan == "overflow"
        )

    @property
    def coding(self) -> Bins:
        return Bins(self.edges, self.timely)

    def base_labels(self) -> list[str]:
        text = [str(self._plain(e)) if self.timely or not e % 1 else f"{e:g}" for e in self.edges]
        opening = ["(" if t == "-inf" else "[" for t in text]
        ends = [
            math.nextafter(edge, math.inf) == end for edge, end in pairwise(self.edges)
        ]  # of single values
        for i, ended in enumerate(ends[:-1]):
            if ended:
                opening[i + 1], text[i + 1] = "(", text[i]
        bins = [f"{mark}{low}, {high})" for mark, low, high in zip(opening, text, text[1:])]
        single = [ended or edge in self.atoms for ended, edge in zip(ends, self.edges)]
        return [text[i] if alone else bins[i] for i, alone in enumerate(single)]

    def code_of(self, value: Any) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            return None
        if not self.edges[0] <= value < self.edges[-1]:
            return None
        return sum(value >= e for e in self.edges[1:])

    def _plain(self, edge: float) -> int | float | str:
        """An edge in the form in which schema documents write it."""
        if self.timely and math.isfinite(edge):
            return epoch.text_of(int(edge), self.dtype)
        return int(edge) if edge % 1 == 0 else edge

    def _own_plain(self) -> dict[str, Any]:
        plain = {"edges": [self._plain(e) for e in self.edges]}
        ends = [
            None if e is None else self._plain(e) if self.timely else e
            for e in (self.min, self.max)
        ]
        tails = [None if tail is None else tail.to_plain() for tail in (self.tail, self.lower_tail)]
        plain |= without_none(min=ends[0], max=ends[1], tail=tails[0], lower_tail=tails[1])
        return plain | without_none(whole=self.whole, digits=self.digits) | plain_inside(self)


@dataclass(frozen=True, kw_only=True)
class Part(Column):
    """One of the code columns of a derived field: the whole numbers 0..count-1."""

    kind: ClassVar[str] = "part"
    count: int = 1
    of: str = ""
    part: str = ""
    first: int = 0
    texts: tuple[str, ...] | None = None

    @property
    def base(self) -> int:
        return self.count

    def base_labels(self) -> list[str]:
        if self.texts is not None:
            return list(self.texts)
        return [str(i + self.first) for i in range(self.count)]

    def code_of(self, value: Any) -> int | None:
        inside = isinstance(value, int) and self.first <= value < self.first + self.count
        return value - self.first if inside else None
