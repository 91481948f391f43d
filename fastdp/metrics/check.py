"""`fastdp.check`: how private rows fit a schema, column by column. For the data's owner; NOT
private.

It reads the source once, with the reader that `synthesize` uses. Of values that do not fit, it
reports the kinds and never the values themselves. A schema is public, so nothing that is seen here
may be copied into it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._util import threads as _threads
from .._util.html import text_html
from .._util.lazy import pa
from .._util.texttable import table as text_table
from ..codec import encode
from ..errors import UsageError
from ..mechanisms import recipe as recipes
from ..mechanisms.limits.structural_zeros import check_possible
from ..schema import Schema, dtypes
from ..schema.coding import Listed
from ..schema.columns import Column
from ..schema.derived import Derived
from ..schema.dialect import Dialect
from ..schema.pending import Pending
from ..tables import idvalues, ingest, part_checks, textkinds
from ..tables.batch_threads import map_batches
from ..tables.parts import Part
from ..tables.sources.source import source_of
from ..tables.textlines import damaged_lines
from ..tables.userids import UserIndex
from ..tables.whole_table import other_encoding
from .causes import with_own_codes

LINES_NAMED = 20
WORDS_KEPT = 1000
"""Of one column, at most this many distinct unknown texts are compared with its list ignoring
blanks and case."""
WANTS = {
    "int": "whole numbers",
    "float": "numbers",
    "decimal": "numbers",
    "bool": "true or false",
    "date": "dates (YYYY-MM-DD)",
    "timestamp": "times (YYYY-MM-DD HH:MM:SS)",
    "string": "texts",
}
NUMBERS = ("int", "float", "decimal")
BELOW_ZERO = r"^\s*-\s*\.?\d"
OWNERS_EYES = "This sees the true rows: it is for the data's owner, and not for release."


@dataclass(frozen=True)
class ColumnCheck:
    """One column of the data, with shares of all rows.

    `null`: without a value. `outside`: values of the right kind that are not in the column's list, range or
    bins. `wrong`: values of another kind (`kinds`: rows of each such kind). `nearly`: texts that would be in
    the list if case and blanks were ignored.
    """

    name: str
    source: str
    expects: str
    null: float
    outside: float
    wrong: float
    kinds: Mapping[str, int] = field(default_factory=dict)
    nearly: float = 0.0
    note: str = ""
    negative: float = 0.0
    """The part of `outside` that is numbers below 0."""


@dataclass(frozen=True)
class UserCheck:
    """Rows per user: quantiles of the number of rows of one user, and the share of rows that the
    schema's bound on rows per user leaves out."""

    column: str
    users: int
    without: int
    median: float
    ninety: float
    ninety_nine: float
    most: int
    bound: int | None
    beyond: float
    """Share of rows beyond the bound."""


@dataclass(frozen=True)
class Check:
    """How rows fit a schema: print the object, or use `to_dict()`. Not private, not for release."""

    rows: int
    dropped: int
    malformed: int
    lines: tuple[tuple[str, int], ...]
    columns: tuple[ColumnCheck, ...]
    users: UserCheck | None
    encoding: str | None = None
    """The encoding that the files seem to have, where it is not the declared UTF-8."""

    def to_dict(self) -> dict[str, Any]:
        return {"private": False, **asdict(self)}

    def __str__(self) -> str:
        out = [
            f"{self.rows:,} rows, of which {self.dropped:,} would be dropped by the schema's"
            " policies"
        ]
        if self.malformed:
            named = ", ".join(f"{number:,}" for _, number in self.lines)
            more = " and more" if self.malformed > len(self.lines) else ""
            out.append(
                f"{self.malformed:,} damaged lines{f': lines {named}{more}' if named else ''}"
            )
        if self.encoding is not None:
            declared = f'dialect={{"encoding": "{self.encoding}"}}'
            out.append(f"The files are not UTF-8: declare {declared}, or encoding under [dialect]")
        heads = ("column", "null", "outside", "wrong kind", "")
        rows = [
            (c.name, _share(c.null), _share(c.outside), _share(c.wrong), c.note)
            for c in self.columns
        ]
        out += text_table([heads, *rows])
        if self.users is not None:
            out += _users_text(self.users)
        return "\n".join([*out, OWNERS_EYES])

    def _repr_html_(self) -> str:
        """For notebooks."""
        return text_html(str(self))


def _share(share: float) -> str:
    if not share:
        return ""
    if share >= 0.001:
        return f"{share:.1%}"
    return "< 0.1%"


def _users_text(u: UserCheck) -> list[str]:
    sizes = (
        f"median {u.median:g}, 90 % at most {u.ninety:g}, 99 % at most {u.ninety_nine:g}, most"
        f" {u.most:,}"
    )
    lines = [f"{u.users:,} users by {u.column!r}; rows of one user: {sizes}"]
    if u.without:
        lines.append(f"{u.without:,} rows have no user id")
    if u.bound is not None:
        lines.append(f"max_rows = {u.bound:,} leaves out {u.beyond:.1%} of the rows")
    return lines


def check(
    source: Any,
    schema: Schema | str | os.PathLike[str],
    *,
    mechanism: Any = "auto",
    dialect: Dialect | Mapping[str, Any] | None = None,
    threads: int | None = None,
) -> Check:
    """How rows fit a schema: nulls, values outside the schema, wrong kinds, damaged lines, rows
    per user.

    NOT private: for the data's owner, before a run or after one with poor results. Nothing is
    charged to a ledger and nothing is written. Do not copy what it reports into a schema.

    Parameters
    ----------
    source : any source that `fastdp.read` takes
        The private rows.
    schema : Schema, path or built-in name
        The schema that the run uses or will use.
    mechanism : str, path, mapping or config, optional
        The mechanism or recipe of the run, whose fields must fit the schema; None: the schema alone.
    dialect : Dialect or mapping, optional
        The dialect of text files, in place of the schema's.
    threads : int, optional
        None: all cores the process may use.

    Returns
    -------
    Check
        Print it, or take `to_dict()`.
    """

    source = source_of(source)
    if source.encoded is not None:
        raise UsageError(
            "check needs values, and a fastdp.Table holds codes; pass the source that was read"
        )
    schema = Schema.of(schema).with_dialect(dialect)
    likely = schema.stand_in()
    check_possible(likely)  # refuses what a run refuses
    if mechanism is not None:
        recipes.check_config(
            recipes.load(mechanism).config(1.0).resolved(likely, 1.0, 1e-6), schema
        )
    parts = source.parts(schema.dialect)
    wanted = part_checks.checked_columns(parts, schema)
    counts = _Counts(schema)
    bare = with_own_codes(schema)
    types = part_checks.source_types(schema)
    check_batch = partial(_check_batch, schema=schema, bare=bare, types=types, users=counts.users)
    for piece in map_batches(parts, wanted, schema.user, check_batch, _threads.resolve(threads)):
        counts.add(piece)
    lines = [
        (part.where, number)
        for part in parts
        if part.tally.lines
        for number in damaged_lines(part.where, schema.dialect, wanted, LINES_NAMED)
    ]
    malformed = sum(part.tally.lines for part in parts)
    encoding = other_encoding(source) if malformed and schema.dialect.encoding == "utf-8" else None
    return replace(counts.result(malformed, lines[:LINES_NAMED]), encoding=encoding)


class Bad(NamedTuple):
    """Values of one column that have no code: how many are of the right kind, how many of each
    wrong kind, and numbers below 0. For lists of texts also how often the commonest texts occur."""

    outside: int
    kinds: dict[str, int]
    words: Counter
    negative: int = 0


@dataclass
class _Piece:
    """Counts of one batch: its rows, rows dropped by policies, for each field (nulls, values without
    a code), its prepared user ids, and rows without an id."""

    rows: int
    dropped: int
    fields: dict[str, tuple[int, Bad]]
    ids: Any = None
    without: int = 0


def _check_batch(
    batch: pa.RecordBatch,
    part: Part,
    position: int,
    schema: Schema,
    bare: Schema,
    types: Mapping[str, str],
    users: UserIndex | None,
) -> _Piece:
    """What a batch has of values without a code, nulls, and users."""
    raw = {name: batch.column(name) for name in batch.schema.names}
    values = ingest.parsed(batch, part, types)
    typed = pa.record_batch(list(values.values()), names=list(values))
    codes, _ = encode.encode_batch(bare, typed)
    drop = _dropped(schema, typed)
    fields = {}
    for name, item in bare.fields.items():
        column = item.parts[0]
        own = schema.fields[name]
        code = codes[column.name]
        null = code == column.null_code
        # Text that is no value of the column's type was read as null.
        if part.is_text(item.source):
            null &= ~np.asarray(raw[item.source].is_valid())
        bad = ~null & (code == column.null_code)
        if column.overflow_code is not None:
            bad |= code == column.overflow_code
        if isinstance(own, Pending) and own.null.action == "drop":
            drop |= code == column.null_code  # what is outside is known once the domain is found
        found = _count_bad(own, raw[item.source], bad) if bad.any() else Bad(0, {}, Counter())
        fields[name] = int(np.count_nonzero(null)), found
    piece = _Piece(batch.num_rows, 0, fields)
    if users is not None and schema.user is not None:
        ids = idvalues.normal(values[schema.user], schema.user_dtype)
        missing = np.asarray(ids.is_null())
        piece.without = int(np.count_nonzero(missing))
        if schema.null_user == "drop":
            drop |= missing
        piece.ids = users.prepare(ids.filter(pa.array(~missing)))
    piece.dropped = int(np.count_nonzero(drop))
    return piece


def _dropped(schema: Schema, batch: pa.RecordBatch) -> np.ndarray:
    """Which rows a run leaves out by the policies of the columns whose domain is stated."""
    stated = [item for item in schema.fields.values() if not isinstance(item, Pending)]
    keep = encode.encode_batch(schema, batch, stated)[1] if stated else None
    return np.zeros(batch.num_rows, bool) if keep is None else ~keep


def _count_bad(item: Column | Derived, raw: pa.Array, bad: np.ndarray) -> Bad:
    """Counts of the values where `bad` is true, which have no code."""

    if isinstance(raw, pa.ExtensionArray):
        raw = raw.storage
    if pa.types.is_dictionary(raw.type):
        raw = raw.dictionary_decode()
    raw = raw.filter(pa.array(bad))
    if not (pa.types.is_binary(raw.type) or pa.types.is_large_binary(raw.type)):
        raw = raw.cast(pa.large_string())
    texts = textkinds.series(raw)
    fine = textkinds.READABLE[dtypes.family(item.dtype)]
    if item.whole_codes:
        fine = textkinds.READABLE["int"]
    counts = textkinds.count_kinds(texts)
    words: Counter = Counter()
    if isinstance(item.coding, Listed) and dtypes.family(item.dtype) == "string":
        words.update(dict(texts.value_counts(sort=True).head(WORDS_KEPT).iter_rows()))
    wrong = {kind: number for kind, number in counts.items() if kind not in fine}
    negative = 0
    if dtypes.family(item.dtype) in NUMBERS:
        negative = int(texts.str.contains(BELOW_ZERO).sum())
    return Bad(sum(counts.values()) - sum(wrong.values()), wrong, words, negative)


class _Counts:
    """Sums of `_Piece` over all batches."""

    def __init__(self, schema: Schema):
        self.schema = schema
        self.users = None if schema.user is None else UserIndex(schema.user)
        self.rows = self.dropped = self.without = 0
        self.null: Counter[str] = Counter()
        self.outside: Counter[str] = Counter()
        self.negative: Counter[str] = Counter()
        self.kinds: dict[str, Counter] = {name: Counter() for name in schema.fields}
        self.words: dict[str, Counter] = {name: Counter() for name in schema.fields}
        self.sizes = np.zeros(0, np.int64)

    def add(self, piece: _Piece) -> None:
        self.rows += piece.rows
        self.dropped += piece.dropped
        self.without += piece.without
        for name, (null, bad) in piece.fields.items():
            self.null[name] += null
            self.outside[name] += bad.outside
            self.negative[name] += bad.negative
            self.kinds[name].update(bad.kinds)
            if bad.words and len(self.words[name]) < WORDS_KEPT:
                self.words[name].update(bad.words)
        if self.users is not None and piece.ids is not None:
            grown = np.bincount(self.users.add(piece.ids), minlength=len(self.sizes))
            grown[: len(self.sizes)] += self.sizes
            self.sizes = grown

    def result(self, malformed: int, lines: Sequence[tuple[str, int]]) -> Check:
        columns = tuple(self._column(name, item) for name, item in self.schema.fields.items())
        return Check(self.rows, self.dropped, malformed, tuple(lines), columns, self._users())

    def _column(self, name: str, item: Column | Derived) -> ColumnCheck:
        rows = max(1, self.rows)
        made = ColumnCheck(
            name=name,
            source=item.source,
            expects=f"{item.kind} ({item.dtype})",
            null=self.null[name] / rows,
            outside=self.outside[name] / rows,
            wrong=sum(self.kinds[name].values()) / rows,
            kinds=dict(self.kinds[name].most_common()),
            nearly=self._nearly(item, self.words[name]) / rows,
            negative=self.negative[name] / rows,
        )
        return replace(made, note=_note(made, item))

    @staticmethod
    def _nearly(item: Column | Derived, words: Counter) -> int:
        if not isinstance(item.coding, Listed):
            return 0
        folded = {str(v).strip().casefold() for v in item.coding.values}
        return sum(
            n for word, n in words.items() if word is not None and word.strip().casefold() in folded
        )

    def _users(self) -> UserCheck | None:
        """Rows per user, against the schema's bound; None for a table without users."""
        if self.schema.user is None:
            return None
        sizes = self.sizes[self.sizes > 0]
        if self.schema.null_user == "own":
            sizes = np.concatenate([sizes, np.ones(self.without, np.int64)])
        sizes = sizes if len(sizes) else np.zeros(1, np.int64)
        median, ninety, ninety_nine = np.quantile(
            sizes, [0.5, 0.9, 0.99], method="inverted_cdf"
        ).tolist()
        bound = self.schema.max_rows_per_user
        if bound is None:
            beyond = 0.0
        else:
            beyond = float(np.maximum(sizes - bound, 0).sum() / max(1, sizes.sum()))
        users = int(np.count_nonzero(sizes))
        return UserCheck(
            column=self.schema.user,
            users=users,
            without=self.without,
            median=median,
            ninety=ninety,
            ninety_nine=ninety_nine,
            most=int(sizes.max(initial=0)),
            bound=bound,
            beyond=beyond,
        )


DECLARE = {
    "number with commas": 'with decimal commas, declare decimal = "," in the dialect',
    "word for missing (NA, null, ...)": 'declare it, such as null = ["", "NA"], in the dialect',
    "date in another form": "convert them to 2024-12-31",
}
"""By kind of text: what to do about it where a column cannot hold it."""


def _note(column: ColumnCheck, item: Column | Derived) -> str:
    """A short advice on what to do about the column."""
    notes = []
    if column.wrong:
        kind, _ = next(iter(column.kinds.items()))
        wanted = "whole numbers" if item.whole_codes else WANTS[dtypes.family(item.dtype)]
        advice = f" ({DECLARE[kind]})" if kind in DECLARE else ""
        notes.append(f"wants {wanted}, finds for example: {kind}{advice}")
    if column.nearly >= 0.001:
        notes.append(f"{column.nearly:.1%} would be in the list but for case or blanks")
    if column.null + column.outside + column.wrong >= 0.995:
        notes.append("NOTHING FITS")
    return "; ".join(notes)
