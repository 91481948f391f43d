"""What every column of a schema answers, whatever its kind.

A kind of column is a module of `kinds/` with a class that extends `Column` or `Derived`. The methods
here are the questions that other folders ask a column; each has an answer that suits a kind which
says nothing. No other folder asks for a column's class.

Codes of every column are numbered in this order: its values or bins as stated, the overflow code,
the null code. The last two exist only if the column's policy asks for them (`"code"`). Nothing here
looks at data: a column is a public description.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..domain import code_dtype
from ..errors import SchemaError
from . import dtypes
from .amounts import Amount, amount_of_times
from .bins import BinColumn
from .canonical import Scalar
from .coding import Coding, Range
from .kind_of_text import moment_of_text, number_of_text
from .within_bin import Grid, Rank, fail, without_none

Uniform = Callable[[str], np.ndarray]
"""`uniform(purpose)` draws from [0, 1), one number for each row."""

MAX_CODES = 1 << 31
OF_USERS = ("constant", "repeated", "free")
"""What a schema may say of a column's values in the rows of one user (docs/guide/users.md)."""


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
class FoundEdges:
    """What a run found of a private column of numbers or times: ascending `edges`.

    `nulls`: it saw enough of them for a code. `digits`: decimals of floats, if it found them. `middle`: the
    edge below its median.
    """

    edges: Sequence[float]
    nulls: bool = False
    digits: int | None = None
    middle: float | None = None


@dataclass(frozen=True, kw_only=True)
class SourceColumn:
    """A column of the source as the schema describes it: its type and its policies.

    Class variables of a kind: `kind` is its name in schema documents. `options` are the keys of its own in
    a table there. `calendar`: values are points in time, for which parts of the calendar stand.

    Of its private domain: `finds` is what a run looks for ("values", "edges"; empty: the kind has none).
    `kept_options` and `private_options` are the keys that such a table may have, of the finished column and
    of the search. `private_type` is the type where none is stated. `finds_means`: means of bins are looked
    for too. `always_whole`: its numbers have no decimals.
    """

    kind: ClassVar[str] = ""
    options: ClassVar[tuple[str, ...]] = ()
    calendar: ClassVar[bool] = False
    finds: ClassVar[str] = ""
    kept_options: ClassVar[tuple[str, ...]] = ()
    private_options: ClassVar[tuple[str, ...]] = ()
    private_type: ClassVar[str] = "string"
    finds_means: ClassVar[bool] = False
    always_whole: ClassVar[bool] = False
    name: str
    source: str
    dtype: str
    null: Policy = OWN_CODE
    overflow: Policy = OWN_CODE
    nan: str = "null"
    user: str | None = None
    note: str | None = None

    @classmethod
    def from_entry(cls, entry: Any, common: dict[str, Any]) -> SourceColumn:
        """The column that a table of [columns] describes (`entry.Entry`). common: the arguments of
        every column, already read."""
        raise NotImplementedError

    @classmethod
    def public_entry(cls, entry: Any) -> dict[str, Any] | None:
        """The table of the finished column, if a private domain of this kind and type needs no
        search; else None."""
        return None

    @classmethod
    def check_private(cls, column: Any) -> None:
        """Raise SchemaError if a column with a private domain (`Pending`) cannot become this
        kind."""

    @classmethod
    def values_entry(cls, column: Any, values: Sequence[int | str]) -> dict[str, Any]:
        """The table of the finished column, from a `Pending` and the values that a run found."""
        raise NotImplementedError

    @classmethod
    def edges_entry(cls, column: Any, found: FoundEdges) -> dict[str, Any]:
        """The table of the finished column, from a `Pending` and the edges that a run found."""
        raise NotImplementedError

    @classmethod
    def stand_in_entry(cls, column: Any) -> dict[str, Any]:
        """A table of the finished column with a likely number of codes, for planning."""
        raise NotImplementedError

    @property
    def temporal(self) -> bool:
        """Whether the column's values are dates or times."""
        return dtypes.family(self.dtype) in ("date", "timestamp")

    @property
    def coding(self) -> Coding | None:
        """How its numbers or listed values become codes; None: the kind has a way of its own."""
        return None

    @property
    def number_grids(self) -> tuple[Grid, ...] | None:
        """The grids of round numbers that its codes tell apart; None if its codes say something else."""
        return None

    @property
    def in_bins(self) -> BinColumn | None:
        """The column itself, if a code is a bin in which decoding draws a number; else None."""
        return None

    @property
    def binned(self) -> bool:
        """Whether a code is a bin, in which decoding draws a number."""
        return self.in_bins is not None

    @property
    def covers_many(self) -> bool:
        """Whether a code stands for several values, so that one value is only a part of it: bins, and
        kinds that draw values in a way of their own."""
        return self.binned or self.coding is None

    @property
    def whole_codes(self) -> bool:
        """Whether each code stands for one whole number, so that codes say exact values."""
        return isinstance(self.coding, Range)

    @property
    def is_moment(self) -> bool:
        """Whether it is a point in time that is written as one value."""
        return False

    @property
    def quantity(self) -> bool:
        """Whether its values are numbers or times with a public domain, so that distances between
        them mean something."""
        return False

    @property
    def summable(self) -> bool:
        """Whether its values are numbers that can be summed and have levels."""
        return self.quantity and not self.temporal

    def amount(self) -> Amount | None:
        """How its exact numbers are read; None if its values are not numbers or times."""
        return amount_of_times(self) if self.temporal else None

    def public_range(self) -> tuple[float, float] | None:
        """The least and the largest of its exact numbers that the schema states, in days, seconds or
        numbers; None if it states none. Values outside may occur all the same."""
        return None

    def order_columns(self) -> tuple[str, ...]:
        """The code columns that put rows in order, most significant first; SchemaError if they
        do not."""
        return (self.name,)

    def released_counts(self) -> Sequence[int]:
        """How many values a run may have released to find its domain; empty if it released none."""
        return ()

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
        return code_dtype(self.size)

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
    def overflow_target(self) -> int | None:
        """The code that values outside the domain are counted under; None if they are dropped or
        clamped."""
        if self.overflow.action == "value":
            return self.code_of(self.overflow.value)
        return self.overflow_code

    @property
    def is_text(self) -> bool:
        """Whether its values are texts, which have no order and no mean."""
        return self.coding is None and dtypes.family(self.dtype) == "string"

    @property
    def ordered(self) -> bool:
        """Whether neighbouring codes stand for neighbouring values."""
        return not self.is_text

    @property
    def can_follow(self) -> bool:
        """Whether a constraint may compute its values from other columns."""
        return self.coding is not None

    @property
    def blank_is_null(self) -> bool:
        """Whether blank texts and words for missing values are nulls, in files of texts."""
        return dtypes.family(self.dtype) != "string"

    @property
    def rank(self) -> Rank | None:
        """The column whose ranks within bins it shares."""
        return None

    @property
    def leads_ranks(self) -> bool:
        """Whether another column may share its ranks within bins."""
        return False

    @property
    def to_find(self) -> tuple[str, ...]:
        """Which of its options have numbers that a run has to find first."""
        return ()

    @property
    def writes_overflow(self) -> bool:
        """Whether values outside the domain are written as a value of their own."""
        return False

    def read_back(self) -> np.ndarray:
        """Array code -> the code that the written value is encoded as."""
        return np.arange(self.size)

    @property
    def encodes_numbers(self) -> bool:
        """Whether a kind without `coding` encodes many floats at once, by `codes_of_numbers`."""
        return False

    def codes_of_numbers(self, numbers: np.ndarray) -> np.ndarray:
        """Codes of floats, NaN where missing."""
        raise NotImplementedError

    def code_of_text(self, text: bytes) -> int | None:
        """The code of a text of a file, for a kind without `coding`. By default that of the value
        which the text spells in the column's type."""
        family = dtypes.family(self.dtype)
        if family in ("int", "float", "decimal"):
            number = number_of_text(text)
            return None if number is None else self.code_of(number)
        if self.temporal:
            moment = moment_of_text(text)
            if moment is None:
                return None
            return self.code_of(moment.date() if family == "date" else moment)
        return self.code_of(text.decode(errors="surrogateescape"))

    def draw(self, codes: np.ndarray, uniform: Uniform) -> Sequence[Any] | np.ndarray:
        """A value of the column's type for each code below `base`, for a kind without `coding`.
        `code_of` has to give back the same code."""
        raise NotImplementedError

    def code_values(self) -> np.ndarray:
        """The value of each code, without null and overflow codes (int64, float64, text, bool or
        datetime64); SchemaError if a code stands for several values."""
        raise SchemaError(
            f"column {self.name!r}: each of its codes covers many values, so expressions cannot "
            "use it; use order or listed values"
        )

    def shown_values(self) -> tuple[list[Any], str]:
        """(value of each code below `base` as frames show it, their type); labels by default."""
        return self.base_labels(), "string"

    def code_numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """For each code below `base`: the least mean of its rows, the number it stands for, the
        largest mean. None if its values are not numbers."""
        return None

    def renamed(self, name: str) -> Column:
        """The same column under another name, apart from what it shares with other columns."""
        return replace(self, name=name)

    def whole_values(self) -> Sequence[int] | None:
        """The whole numbers that codes stand for; None if they stand for anything else."""
        return None

    def moved_to(self, largest: int) -> Column:
        """The column with its `whole_values` moved so that this is the largest of them."""
        raise NotImplementedError

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
class Part(Column):
    """One of the code columns of a derived field: the whole numbers 0..count-1. `dates`: they are
    days, written in `texts`."""

    kind: ClassVar[str] = "part"
    count: int = 1
    of: str = ""
    part: str = ""
    first: int = 0
    texts: tuple[str, ...] | None = None
    dates: bool = False

    @property
    def base(self) -> int:
        return self.count

    @property
    def coding(self) -> Range:
        """How its codes are decoded; the derived field encodes it."""
        return Range(self.first, self.count)

    @property
    def can_follow(self) -> bool:
        return False

    def base_labels(self) -> list[str]:
        if self.texts is not None:
            return list(self.texts)
        return [str(i + self.first) for i in range(self.count)]

    def code_of(self, value: Any) -> int | None:
        inside = isinstance(value, int) and self.first <= value < self.first + self.count
        return value - self.first if inside else None

    def code_values(self) -> np.ndarray:
        if self.dates:
            return np.array(self.texts, "datetime64[D]")
        return np.arange(self.base, dtype=np.int64) + self.first

    def shown_values(self) -> tuple[list[Any], str]:
        numbers = self.whole_values()
        return super().shown_values() if numbers is None else (list(numbers), "int64")

    def code_numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        numbers = self.whole_values()
        return None if numbers is None else same_numbers(numbers)

    def whole_values(self) -> range | None:
        return range(self.first, self.first + self.count) if self.texts is None else None


def same_numbers(numbers: Sequence[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`code_numbers` of codes that stand for one number each."""
    exact = np.array([float(number) for number in numbers])
    return exact, exact, exact
