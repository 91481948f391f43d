"""What the values of one column suggest for a drafted schema: its kind, values, bins or parts. They
also say whether it may hold user ids, and why it is left out."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np

from .._util.lazy import pa, pl
from ..schema import dtypes
from ..schema.epoch import DAY_SECONDS
from ..schema.transforms import CLOCK_STEPS, MIDNIGHT
from ..schema.within_bin import after, unit_of
from . import textkinds
from .relations import plain
from .whole_table import parsed, type_of_texts

MOST_VALUES = 1000
"""The longest list of values that is drafted. A text column with more distinct values is taken for
an identifier or free text, unless its values occur often on average."""
OFTEN = 20
"""Rows of a value that occurs often: on average in a long list of texts, at least for a bin of its
own among numbers."""
RANGE = 1000
"""A column of whole numbers whose range contains at most this many numbers is drafted as that
range."""
FEW = 50
"""A column of whole numbers with a wider range, but at most this many distinct values, is drafted
as a list."""
MANY_DATES = 60
DAYS_LISTED = 370
"""A span of at most this many days is drafted by its dates, a longer one by year, month and day of
the week. Where a year has fewer than `ROWS_A_YEAR` rows, it is drafted by bins of years."""
ROWS_A_YEAR = 100
REPEATED = 0.95
"""Distinct values per row, at most, of a column of ids that may be those of users. Row numbers have
1."""
IDENTIFIERS = 50
"""Rows from which on values are taken for identifiers; whole numbers without such a name from four
times as many."""
EMPTY = 0.99
"""A column with this share of nulls is left out: a run would stop at it (`empty_columns`)."""
_PLAIN = "plain numbers such as 1234.50"
_ISO = "2024-12-31 or 2024-12-31 23:59"
_CONVERT = {
    "money": _PLAIN,
    "percentage": _PLAIN,
    "number with commas": _PLAIN,
    "date in another form": _ISO,
    "time of day": "whole numbers such as 1601, or join them with their dates: 2024-12-31 16:01",
}
"""By kind of text that no column can be read as: the form to convert it to."""
ID = re.compile(
    r"(^|[_\s.-])(id|ids|key|uuid|guid|hash|token|nr|no|num|number|ssn|email|phone|name)$|[a-z]I[dD]$",
    re.I,
)
WHO = re.compile(
    r"(user|person|people|patient|customer|client|member|resident|house|account|card|device|driver|taxi|tail|"
    r"vehicle|student|employee|subject|owner|passenger|subscriber|aircraft)(?!s(?![a-z]))",
    re.I,
)
"""Words for people. In the plural they name a number of them, such as `open_accounts`."""


@dataclass(frozen=True)
class Candidate:
    """A column that may hold user ids: `values` is its number of distinct values, `rows` the number
    of rows, and 99 % of the values occur in at most `usual` rows."""

    name: str
    values: int
    rows: int
    usual: int

    def __str__(self) -> str:
        return (
            f"{self.name!r} ({self.values:,} values, {self.rows / self.values:.3g} rows each on"
            " average)"
        )


def remedy(kind: pa.DataType) -> str:
    """What to do with a column of a type that no schema reads, to follow the error."""
    if pa.types.is_duration(kind):
        return ": write it as a number, such as its seconds"
    if pa.types.is_time(kind):
        return ": write it as a number, such as its minutes since midnight"
    if pa.types.is_nested(kind):
        return ": give what it is made of columns of their own"
    return ": it has no values" if pa.types.is_null(kind) else ""


class ColumnLook:
    """One column of the data, and what its values suggest for the schema."""

    def __init__(
        self, name: str, column: pa.ChunkedArray, bins: int, public: bool, names: Sequence[str]
    ):
        self.name = name
        self.bins = bins
        self.public = public
        self.names = names
        self.notes: list[str] = []
        self.low: Any
        self.high: Any
        kind = column.type
        if isinstance(kind, pa.BaseExtensionType):
            column = pa.chunked_array([c.storage for c in column.chunks], type=kind.storage_type)
            kind = column.type
        self.problem = ""
        self.dtype = dtypes.name_of(kind)
        self.category = pa.types.is_dictionary(kind)
        if self.category:
            self.dtype = self.dtype or dtypes.name_of(kind.value_type)
            column = pa.chunked_array(
                [c.dictionary_decode() for c in column.chunks], type=kind.value_type
            )
        if self.dtype is None:
            self._leave_out(f"a {column.type} column cannot be drafted{remedy(column.type)}")
            return
        self.values = pl.Series(pl.from_arrow(column))
        if self.values.dtype == pl.Binary:
            self.values = textkinds.series(column)
        self.family = dtypes.family(self.dtype)
        if self.family == "string" and not self.category:
            looks = type_of_texts(self.values)
            if looks != "string":
                self.dtype = looks
                self.family = dtypes.family(looks)
                self.values = pl.Series(pl.from_arrow(parsed(self.values, looks)))
        if self.family == "float":
            self.values = self.values.set(~self.values.is_finite(), None)
        self.series = self.values
        self.null = bool(self.values.null_count())
        share = self.values.null_count() / len(self.values) if len(self.values) else 1.0
        if share >= EMPTY:
            self.problem = f"{share:.1%} of its values are null"
        self.values = self.values.drop_nulls()
        self.whole = self.family == "int"
        if self.family == "float" and len(self.values):
            numbers = self.values
            self.whole = bool((numbers == numbers.round()).all() and (numbers.abs() < 2**53).all())
        self.distinct = self.values.n_unique()
        self.low, self.high = self.values.min(), self.values.max()
        self.why = self._why()
        if self.family == "string" and self.distinct > FEW and not self.category:
            self._check_words()

    def _leave_out(self, problem: str) -> None:
        self.problem = problem
        self.values = pl.Series([], dtype=pl.Null)
        self.why = ""

    def _why(self) -> str:
        """Why the column is taken for an identifier or free text; "" if it is not."""
        rows = len(self.values)
        if rows < IDENTIFIERS or not (self.whole or self.family == "string") or self.category:
            return ""
        if self.whole:
            every = (
                self.distinct == rows and rows >= 4 * IDENTIFIERS and self.high - self.low >= RANGE
            )
            named = bool(ID.search(self.name)) and self.distinct > 2 * FEW
            looks = f"a number of {self.distinct:,} values that looks like an identifier"
            return looks if every or named else ""
        named = bool(ID.search(self.name) or WHO.search(self.name)) and self.distinct > 2 * FEW
        if (
            self.distinct > 0.9 * rows
            or self.distinct * OFTEN > max(rows, MOST_VALUES * OFTEN)
            or named
        ):
            return f"a text of {self.distinct:,} values that looks like an identifier or free text"
        return ""

    def _check_words(self) -> None:
        kinds = textkinds.count_kinds(self.values)
        most = max(_CONVERT, key=lambda kind: kinds.get(kind, 0))
        plain = 0
        if _CONVERT[most] == _PLAIN:
            plain = sum(kinds.get(kind, 0) for kind in textkinds.NUMBERS)
        if kinds.get(most) and kinds[most] + plain > 0.9 * len(self.values):
            self.problem = f"texts of the kind {most!r}: convert them to {_CONVERT[most]}"

    @property
    def may_be_user(self) -> bool:
        """Whether the values may be user ids. They repeat, and look like identifiers, are named
        like ids or people, or all have equally many rows, as in a panel. Ids by name may repeat in
        few rows: most patients come once."""
        kind = self.whole or self.family == "string"
        most = REPEATED if self.why and ID.search(self.name) else 0.5
        if not kind or self.distinct < 2 or self.distinct > most * len(self.values):
            return False
        named = self.distinct >= OFTEN / 2 and (ID.search(self.name) or WHO.search(self.name))
        panel = self.distinct > FEW and self.values.unique_counts().n_unique() == 1
        return bool(self.why or named or panel)

    def candidate(self) -> Candidate:
        usual = int(self.values.unique_counts().quantile(0.99, "higher") or 1)
        return Candidate(self.name, max(1, self.distinct), len(self.values), usual)

    def entry(self) -> dict[str, Any]:
        assert self.dtype is not None
        made: dict[str, Any] = {"dtype": self.dtype, "null": "code" if self.null else "drop"}
        if self.family in ("int", "float", "decimal"):
            return made | self._number()
        dates = self.family == "date" and self.distinct > MANY_DATES
        if self.family == "timestamp" or dates:
            return made | self._time(dates)
        listed = [False, True] if self.family == "bool" else sorted(set(self.values.to_list()))
        return made | {"kind": "categorical", "values": [plain(v) for v in listed]}

    def _number(self) -> dict[str, Any]:
        """The document of a column of numbers."""
        if self.whole and self.high - self.low < RANGE:
            low, high = int(self.low), int(self.high)
            offsets = (self.values.unique().cast(pl.Int64) - low).to_numpy()
            steps = range(low, high + 1, max(1, int(np.gcd.reduce(offsets))))
            if steps.step > 1 and len(steps) <= FEW:
                return {"kind": "categorical", "values": [plain(v) for v in steps]}
            return {"kind": "integer", "min": low, "max": high}
        few = FEW if self.whole or self.family == "decimal" else min(FEW, len(self.values) // OFTEN)
        if self.distinct <= few:
            listed = sorted(self.values.unique().to_list())
            return {"kind": "categorical", "values": [plain(v) for v in listed]}
        if self.whole and self.low >= 0 and self.high <= 2400 and (self.values % 100 < 60).all():
            return self._clock()
        numbers = self.values.cast(pl.Float64)
        digits = self._digits()
        if self.public:
            made = _even_bins(numbers, 0 if self.whole else digits.get("digits"), self.bins)
        else:
            made = _bins(numbers, self.whole, self.bins)
        return made | self._atoms(numbers, made["edges"], digits.get("digits")) | digits

    def _atoms(
        self, numbers: pl.Series, edges: Sequence[float | str], digits: int | None
    ) -> dict[str, Any]:
        """The option `atoms`: values with as many rows as an even bin would have, at least
        `OFTEN`, that are not bins of their own already. Nothing where there are none."""
        assert self.dtype is not None
        counts = numbers.value_counts(name="rows")
        often = counts.filter(pl.col("rows") >= max(OFTEN, len(numbers) / self.bins))
        found = sorted(often.get_column(numbers.name).to_list())
        unit = unit_of(self.dtype, self.whole, digits)
        if digits is not None:
            found = sorted({round(value, digits) for value in found})
        own = [v for v in found if v not in edges or after(v, self.dtype, unit) not in edges]
        if not own:
            return {}
        return {"atoms": [int(v) if v % 1 == 0 else v for v in own]}

    def _clock(self) -> dict[str, Any]:
        """Clock times written as HHMM; minutes are a part where they are uneven."""
        minutes = self.values.cast(int) % 100
        by = next(b for b in (30, 15, 10, 5, 1) if (minutes % b == 0).all())
        # Uneven minutes count as times also where `by` is 5 or more.
        uneven = (minutes.unique_counts() > 3 * len(minutes) / 60).any()
        parts = [self._fresh(part) for part in ("hour", "minute")[: 1 + uneven]]
        return {"kind": "derived", "transform": "hhmm", "by": by, "parts": parts}

    def _fresh(self, part: str) -> str:
        """A name for a part that no column has."""
        name = f"{self.name}_{part}"
        while name in self.names:
            name += "_part"
        return name

    def _digits(self) -> dict[str, Any]:
        """The option `digits` (number of decimals) if all values have at most four decimals, else
        nothing."""
        if self.family == "decimal":
            return {"digits": dtypes.decimal_scale(self.dtype or "")}
        if self.family != "float":
            return {}
        room = 1e-9 * (1 + self.values.abs())
        for digits in range(5):
            if bool(((self.values - self.values.round(digits)).abs() <= room).all()):
                return {"digits": digits}
        return {}

    def _time(self, dates: bool) -> dict[str, Any]:
        """The document of a column of dates or times, with the step of its clock. Years in bins
        where the column is long and has few rows a year."""
        days = (self.high - self.low).days
        years = self.high.year - self.low.year + 1
        step = 0
        if not dates:
            clock = self.values - self.values.dt.truncate("1d")
            seconds = clock.dt.total_seconds()
            if (midnight := (seconds == 0).sum() / len(seconds)) >= MIDNIGHT:
                step = DAY_SECONDS
                if midnight < 1:
                    self.notes.append(
                        f"{self.name!r}: {1 - midnight:.1%} have a time of day, left out."
                    )
            else:
                step = next(s for s in CLOCK_STEPS if bool((seconds % s == 0).all()))
        if days >= DAYS_LISTED and len(self.values) < ROWS_A_YEAR * years:
            wide = next(
                w for w in (1, 2, 5, 10, 20, 50, 100, 1000, 10_000) if years <= w * self.bins
            )
            ends = range(self.low.year // wide, self.high.year // wide + 2)
            edges = [f"{min(max(1, y * wide), 9999):04d}-01-01" for y in ends]
            return {"kind": "numeric", "edges": edges} | (
                {"dtype": "date32"} if step == DAY_SECONDS else {}
            )
        parts = ("date",) if days < DAYS_LISTED else ("year", "month", "day_of_week")
        made: dict[str, Any] = {
            "kind": "timestamp",
            "parts": {
                p: self._fresh(p)
                for p in (*parts, *(() if step in (0, DAY_SECONDS) else ("hour",)))
            },
            "min": str(self.low)[:10],
            "max": str(self.high)[:10],
        }
        return made | ({"step": step} if step else {})


def _bins(values: Any, whole: bool, bins: int) -> dict[str, Any]:
    """About `bins` bins with round edges over the middle 98 % of the values, and open ends."""
    low, high = float(values.min()), float(values.max())
    inner = [float(values.quantile(q, "linear")) for q in (0.01, 0.99)]
    step = _round_step((inner[1] - inner[0]) / bins)
    if whole:
        step = max(1, math.ceil(step))
    first = math.floor(inner[0] / step)
    last = max(first + 1, math.ceil(inner[1] / step))
    edges = [_multiple(i, step) for i in range(first, last + 1)]
    made: dict[str, Any] = {"kind": "numeric", "edges": ["-inf", *edges, "inf"]}
    if low >= 0 and edges[0] <= 0:
        made["edges"] = [0, *(e for e in edges if e > 0), "inf"]
    else:
        made["min"] = min(low, edges[0] - step)
    made["max"] = max(high, edges[-1] + step)
    return {k: int(v) if whole and isinstance(v, float) else v for k, v in made.items()}


def _even_bins(values: Any, digits: int | None, bins: int) -> dict[str, Any]:
    """About `bins` bins of equal counts, open above; a value that fills several gets one of its
    own."""
    at = [float(values.quantile(i / bins, "lower")) for i in range(bins)]
    edges = set(at)
    if digits is not None:
        edges |= {round(a + 10.0**-digits, digits) for a, b in pairwise(at) if a == b}
    listed = sorted(int(e) if e % 1 == 0 else e for e in edges)
    return {
        "kind": "numeric",
        "edges": [*listed, "inf"],
        "max": max(float(values.max()), listed[-1]),
    }


def _multiple(i: int, step: float) -> float:
    """i times the step; the float nearest to the round number that it is."""
    return i * step if isinstance(step, int) else float(i * Decimal(repr(step)))


def _round_step(step: float) -> float:
    """The smallest number of the form 1, 2 or 5 times a power of ten that is at least `step`; 1 for
    a constant column."""
    if step <= 0:
        return 1
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step * 0.999)
