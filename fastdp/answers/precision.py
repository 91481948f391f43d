"""How well a table can be known: the evidence from which a verdict is made.

Before a run it follows from the plan's noise and a public guess of the rows, after a run from its
released numbers. Both fill one structure, so that one judge words both (`verdict`).

The precision of a column is the half-width at 95 % of the share of one of its values. It is
compared with the column's *typical share*: the expected share of the value that a random row has,
the sum of squared shares. Before a run nobody knows the shares. They are taken as those of Zipf's
law, where the k-th most frequent value is k times rarer than the first. After the run, columns are
named of which the guess was another word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, structs

from .._util.lazy import pa
from ..errors import UsageError
from ..measurement import Measurement
from ..schema import Schema
from ..schema.columns import Column
from .amount_columns import amounts, bounded
from .answer import answer
from .best_linear import Table, estimate
from .clipping import Z95, Clipping
from .evidence import Marginal, marginals_of
from .facts import Facts
from .people_facts import ROWS, PeopleFacts, people_facts
from .values import numbers_of

NOTHING_CLIPPED = Clipping()
CLEAR = 0.25
"""A share is quotable where its half-width is at most so large a part of it. This chooses a word."""
MOST_MEANS = 12
"""Columns of numbers whose mean is looked at: each takes some milliseconds."""

PART = 0.95
"""The part of the rows whose values have at most the half-width that a verdict names."""
FAITHFUL = 0.05
"""A table is good for what has at most this part of the rows wrong. This chooses a word."""
ENOUGH = 20
"""Codes of either column from which the measurements of its columns alone are left out. They tell
sums of so many cells, which take at most a twentieth each off the variance of a cell, and a system
of as many equations as there are sums takes seconds."""


class Known(Struct, frozen=True):
    """How well the shares of a column or of a pair are known. It has the half-width at 95 % of a
    share, and the share of the value of a typical row, both as parts of all rows."""

    names: tuple[str, ...]
    half: float
    typical: float

    @property
    def noise(self) -> bool:
        """Whether a typical value does not stand out of the noise."""
        return not self.half < self.typical

    @property
    def clear(self) -> bool:
        return self.half <= CLEAR * self.typical


class Amount(Struct, frozen=True):
    """A sum, mean or other number: how far its interval reaches from the estimate, as a part of it or
    in points of a share. `bounded`: values beyond the bounds count as the nearest one. `unless_low`:
    the width is another one where most values are the lowest."""

    name: str
    half: float
    points: bool = False
    bounded: bool = False
    unless_low: bool = False

    @property
    def clear(self) -> bool:
        return self.half <= CLEAR


class Learnt(Struct, frozen=True):
    """A column of which a plan would say another word: the share of the value of a typical row, and
    what a plan guesses of it."""

    name: str
    typical: float
    guessed: float


class People(Struct, frozen=True):
    """What is known of users. `facts`: what was released about each user's rows together; `half`:
    the half-width of a share of users; `kept`: whether users' rows are dealt by released habits."""

    facts: tuple[str, ...] = ()
    half: float = math.inf
    kept: bool = False


class Precision(Struct, frozen=True):
    """What one can know of a table. `rows`: how many rows it has, as far as known. `lost`: columns
    most of whose rows lie outside the domain. `pairs`: those that are measured, with names where
    they are known. `pairs_chosen`: the run will choose them, `measured_pairs` at most. `others`:
    the part of the rows that count in a wrong cell of an unmeasured pair, if it was released;
    `others_told`: it will be. `merged`: columns of unmeasured pairs in which many rows have a value
    that shares its cells with others. `people`: None for a table without users. `order`: columns
    that order a user's rows. `target`: the column for whose models the run measures, if one was
    named; `takes_target`: the mechanism can be told of one. `leaves_out`: the clip leaves rows out.
    `guessed`: the shares are guesses; `learnt`: columns of which a plan would say another word."""

    rows: float | None
    columns: tuple[Known, ...]
    lost: tuple[str, ...] = ()
    pairs: tuple[Known, ...] = ()
    measured_pairs: int = 0
    of_pairs: int = 0
    pairs_chosen: bool = False
    others_told: bool = False
    others: float | None = None
    merged: tuple[str, ...] = ()
    amounts: tuple[Amount, ...] = ()
    asked: tuple[Amount, ...] = ()
    people: People | None = None
    target: str = ""
    takes_target: bool = False
    order: tuple[str, ...] = ()
    clip: str = ""
    clip_warns: bool = False
    leaves_out: bool = False
    guessed: bool = False
    learnt: tuple[Learnt, ...] = ()


def zipf_shares(values: int) -> np.ndarray:
    """Shares of so many values by Zipf's law, the most frequent first."""
    ranks = 1.0 / np.arange(1, min(values, 1_000_000) + 1)
    return ranks / ranks.sum()


def zipf(values: int) -> float:
    """The typical share of a column of so many values by Zipf's law."""
    return float(np.square(zipf_shares(values)).sum())


def expected(
    ones: Mapping[str, tuple[int, float]],
    pairs: Sequence[tuple[tuple[str, ...], float]],
    rows: int,
    *,
    clipping: Clipping = NOTHING_CLIPPED,
    schema: Schema | None = None,
    private: Sequence[str] = (),
    asked: Sequence[Amount] = (),
    people: People | None = None,
    target: str = "",
    takes_target: bool = False,
    order: Sequence[str] = (),
    clip: str = "",
    others_told: bool = False,
) -> Precision:
    """The precision of a run on about `rows` rows. `ones`: values and standard error of a count, by
    column; `pairs`: names, or none where the run chooses them, and standard error of a count. Counts
    are of rows that count at the clip; `clipping` says how many do. `schema`: whose columns of
    amounts have means, which are answered from the expected counts as from released ones, but of
    `private` columns, whose domain the run finds. `others_told`: as in `Precision`."""
    counted = max(rows * (1 - clipping.lost), 1.0)
    typical = {name: zipf(size) for name, (size, _) in ones.items()}
    clearest = iter(_clearest_pairs([*typical.values()], len(pairs)))
    columns = []
    for name, (size, error) in ones.items():
        half = _half_width(zipf_shares(size) * counted, error, clipping, counted)
        columns.append(Known((name,), half, typical[name]))
    usual = float(np.median([*typical.values()])) if typical else 1.0
    measured = []
    for names, error in pairs:
        named = math.prod(typical.get(name, usual) for name in names)
        share = named if names else next(clearest, usual * usual)
        half = _half_width(np.array([share * counted]), error, clipping, counted)
        measured.append(Known(tuple(names), half, share))
    return Precision(
        rows=float(rows),
        columns=tuple(columns),
        pairs=tuple(measured),
        measured_pairs=len(measured),
        of_pairs=math.comb(len(ones), 2),
        pairs_chosen=any(not names for names, _ in pairs),
        others_told=others_told,
        amounts=() if schema is None else _expected_means(schema, private, ones, counted, clipping),
        asked=tuple(asked),
        people=people,
        target=target,
        takes_target=takes_target,
        order=tuple(order),
        clip=clip,
        guessed=True,
    )


def _clearest_pairs(typical: Sequence[float], count: int) -> list[float]:
    """The typical shares of so many pairs of columns, the largest first: a run that chooses its pairs
    may choose these. They are among the columns with the largest shares, one more than pairs."""
    first = np.sort(np.array(typical))[::-1][: count + 1]
    shares = np.multiply.outer(first, first)[np.triu_indices(first.size, 1)]
    return np.sort(shares)[::-1][:count].tolist()


def _expected_means(
    schema: Schema,
    private: Sequence[str],
    ones: Mapping[str, tuple[int, float]],
    counted: float,
    clipping: Clipping,
) -> tuple[Amount, ...]:
    """Means as a run would answer them whose counts had the expected errors. Nobody knows where the
    values lie. If a mean is too wide with most values the lowest, as of counts, those in the middle
    are taken as the most frequent."""
    known = [
        (name, size, error)
        for name, (size, error) in ones.items()
        if name not in private and size == schema.modelled.get(name)
    ]

    def means(place: Callable[[np.ndarray], np.ndarray]) -> list[Amount]:
        imagined = [
            Measurement((name,), place(zipf_shares(size)) * counted, error)
            for name, size, error in known
        ]
        marginals = marginals_of(imagined, schema.modelled, {})
        return _means(Facts(schema, marginals, clipping))

    there = {name for name, _, _ in known}
    out = []
    for low, middle in zip(means(_lowest_first), means(_middle_first), strict=True):
        if low.name not in there or _around_zero(schema.columns[low.name]):
            low = structs.replace(low, half=math.inf)
        elif middle.clear and not low.clear:
            low = structs.replace(middle, unless_low=True)
        out.append(low)
    return tuple(out)


def _around_zero(column: Column) -> bool:
    """Whether the mean may be 0, so that nobody knows how large a part of it an error is."""
    numbers = numbers_of(column)
    valid = numbers.valid
    return bool(valid.any() and numbers.low[valid].min() < 0 < numbers.high[valid].max())


def _lowest_first(shares: np.ndarray) -> np.ndarray:
    """Shares of which most are at the lowest places: those of Zipf's law, squared."""
    return np.square(shares) / np.square(shares).sum()


def _middle_first(shares: np.ndarray) -> np.ndarray:
    """The shares, from the largest on, at the places from the middle on."""
    from_middle = np.abs(np.arange(shares.size) - (shares.size - 1) / 2)
    out = np.empty(shares.size)
    out[np.argsort(from_middle, kind="stable")] = shares
    return out


def _half_width(
    counts: np.ndarray,
    errors: np.ndarray | float,
    clipping: Clipping,
    rows: float,
    columns: Sequence[str] = (),
) -> float:
    """The half-width at 95 % of the shares of these counts of `rows` rows that count: noise, and how
    the rows left out may be divided. A clip moves large counts more than small ones. The half-width is
    therefore that which the values of PART of the rows do not exceed."""
    down, up = clipping.divided(counts, rows, columns)
    halves = np.broadcast_to(Z95 * (errors + np.maximum(down, up)) / rows, counts.shape)
    order = np.argsort(halves, kind="stable")
    below = np.cumsum(np.maximum(counts, 0.0)[order])
    if not below[-1] > 0:
        return float(halves.max())
    return float(halves[order[np.searchsorted(below, PART * below[-1])]])


def released(
    facts: Facts,
    statement: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    measurements: Sequence[Any] = (),
) -> Precision:
    """The precision of a finished run, from what it released alone."""
    total = estimate(facts.marginals, ())
    rows = None if total is None else max(float(total.x[0]), 1.0)
    single = [m for m in facts.marginals if len(m.axes) == 1]
    columns: dict[str, _Column] = {}
    learnt: list[Learnt] = []
    found = statement.get("schema", {}).get("found", {}).get("columns", ())
    lost: list[str] = []
    for name in facts.schema.modelled:
        table = estimate(single, (name,), facts.contrasts)
        if table is None or table.known is not None:
            continue
        known = _known(facts, table, rows)
        columns[name] = _Column.of(facts, known, table, rows)
        if not known.noise and _outside(facts, name, table, rows):
            lost.append(name)
        guess = structs.replace(known, typical=zipf(facts.schema.modelled[name]))
        if name not in found and (guess.noise, guess.clear) != (known.noise, known.clear):
            learnt.append(Learnt(name, known.typical, guess.typical))
    measured = facts.measured_pairs()
    others, merged = _others(facts, measured, rows, columns)
    named = sorted(tuple(sorted(pair)) for pair in measured)
    mechanism = statement.get("mechanism")
    mechanism = mechanism if isinstance(mechanism, Mapping) else {}
    config = mechanism.get("config") if isinstance(mechanism.get("config"), Mapping) else {}
    return Precision(
        rows=None if rows is None else rows * facts.clipping.factor,
        columns=tuple(column.known for column in columns.values()),
        lost=tuple(lost),
        pairs=_known_pairs(facts, named, single, rows, columns),
        measured_pairs=len(named),
        of_pairs=math.comb(len(facts.schema.modelled), 2),
        others=others,
        merged=merged,
        amounts=tuple(_means(facts)),
        asked=tuple(_asked(tables.get("numbers"))),
        people=_people(facts, statement, mechanism, measurements, tables),
        target=str((config or {}).get("target") or ""),
        takes_target="target" in (config or {}),
        order=tuple(facts.schema.order_columns),
        clip=facts.clipping.text,
        clip_warns=bool(facts.clipping.text) and not facts.clipping.known,
        leaves_out=facts.clipping.leaves_out,
        learnt=tuple(learnt),
    )


def _known(facts: Facts, table: Table, rows: float | None) -> Known:
    """Noise and clipping of the table's cells as shares, against the cell of a typical row."""
    cells = table.x.size
    if rows is None:
        return Known(table.axes, math.inf, 1 / cells)
    variances = table.cell_variances()
    half = _half_width(table.x, np.sqrt(variances), facts.clipping, rows, table.axes)
    squares = float((np.square(table.x) - variances).sum()) / rows**2
    typical = min(1.0, max(1 / cells, squares))
    return Known(table.axes, half, typical)


class _Column(Struct, frozen=True):
    """A single column: what is known of it, and the part of the rows whose value shares its cells of
    pairs. Also the shares of its values and the variances of their noise; none where values were
    merged."""

    known: Known
    shares: np.ndarray | None = None
    noise: np.ndarray | None = None
    mixed: float = 0.0

    @classmethod
    def of(cls, facts: Facts, known: Known, table: Table, rows: float | None) -> _Column:
        (codes,) = table.maps
        if rows is None or table.x.size != codes.size:
            return cls(known)
        shares = table.x[codes] / rows
        noise = table.cell_variances()[codes] / rows**2
        merged = facts.codes.get(known.names[0])
        mixed = 0.0
        if merged is not None:
            together = np.bincount(merged)[merged] > 1
            mixed = float(np.maximum(shares, 0.0)[together].sum())
        return cls(known, shares, noise, mixed)

    def alone(self, cells: np.ndarray) -> float:
        """The probability that two random rows in the same cell have the same value. `cells`: the
        cell of each value."""
        if self.shares is None or self.noise is None or int(cells.max()) + 1 == cells.size:
            return 1.0
        together, noise = (np.bincount(cells, v) for v in (self.shares, self.noise))
        same_cell = float((np.square(together) - noise).sum())
        return min(1.0, self.known.typical / max(same_cell, self.known.typical))


def _known_pairs(
    facts: Facts,
    pairs: Sequence[tuple[str, ...]],
    single: Sequence[Marginal],
    rows: float | None,
    ones: Mapping[str, _Column],
) -> tuple[Known, ...]:
    """The precision of each pair, by the measurements that hold it and those of its columns alone, and
    by contrasts."""
    complete = [m for m in facts.marginals if m.complete]
    holding = [(m, frozenset(m.axes)) for m in complete if len(m.axes) > 1]
    alone = [m for m in single if m.complete]
    found = []
    for names in pairs:
        telling = [m for m, axes in holding if axes.issuperset(names)]
        if min(facts.merged_size(name) for name in names) < ENOUGH:
            telling += [m for m in alone if m.axes[0] in names]
        found.append(_known_pair(facts, names, telling, rows, ones))
    return tuple(found)


def _known_pair(
    facts: Facts,
    names: tuple[str, ...],
    telling: Sequence[Marginal],
    rows: float | None,
    ones: Mapping[str, _Column],
) -> Known:
    """The precision of a pair. Values that share a cell of it cannot be told apart, so its typical
    share is that of a pair of values, not of cells. Rows that agree in the pair agree in both
    columns, so it is at most the typical share of either."""
    table = estimate(telling, names, facts.contrasts) if rows else None
    if table is None or table.known is not None:
        return Known(names, math.inf, 0.0)
    known = _known(facts, table, rows)
    own = [ones[name] for name in names if name in ones]
    cells = dict(zip(table.axes, table.maps, strict=True))
    typical = known.typical * math.prod(one.alone(cells[one.known.names[0]]) for one in own)
    return Known(names, known.half, min([typical, *(one.known.typical for one in own)]))


def _outside(facts: Facts, name: str, table: Table, rows: float | None) -> bool:
    """Whether most rows of the column lie outside its domain."""
    column = facts.schema.columns.get(name)
    code = None if column is None else column.overflow_target
    if facts.mostly_outside(name):
        return True
    if code is None or rows is None:
        return False
    (codes,) = table.maps
    alone = int(np.count_nonzero(codes == codes[code])) == 1
    return alone and float(table.x[codes[code]]) > rows / 2


def _others(
    facts: Facts,
    measured: set[frozenset[str]],
    rows: float | None,
    columns: Mapping[str, _Column],
) -> tuple[float | None, tuple[str, ...]]:
    """(the part of the rows that count in a wrong cell, columns) of the pairs that were not measured.
    The part is the mean over these pairs. The columns are those with so many merged values that
    single ones may be far off."""
    rest = {s: d for s, d in facts.distances.items() if len(s) == 2 and s not in measured}
    if not rest or rows is None:
        return None, ()
    there = frozenset[str]().union(*rest)
    merged = [n for n, one in columns.items() if n in there and one.mixed > FAITHFUL]
    return min(1.0, float(np.mean([*rest.values()])) / 2 / rows), tuple(merged)


def _means(facts: Facts) -> list[Amount]:
    """Means of columns of amounts. A mean is as wide as its sum, but for the number of rows."""
    out = []
    for name in amounts(facts.schema):
        try:
            (found,) = answer(facts, f"mean({name})").to_pylist()
        except UsageError:
            continue
        out.append(Amount(name, _relative(found), bounded=bounded(facts.schema.columns[name])))
        if len(out) == MOST_MEANS:
            break
    return out


def _asked(numbers: pa.Table | None) -> list[Amount]:
    """Numbers that were asked for beforehand; of one with groups the middle one."""
    widths: dict[str, list[tuple[float, float]]] = {}
    for line in [] if numbers is None else numbers.to_pylist():
        points = line["number"].lstrip().startswith("share")
        capped = {"estimate": "capped", "low": "capped_low", "high": "capped_high"}
        cut = math.inf
        if line.get("capped") is not None:
            cut = _relative({k: line[v] for k, v in capped.items()})
        half = reach(line) if points else _relative(line)
        widths.setdefault(line["number"], []).append((half, cut))
    out = []
    for number, halves in widths.items():
        whole, cut = np.median(halves, axis=0).tolist()
        out.append(asked_amount(number, whole, cut, number.lstrip().startswith("share")))
    return out


def asked_amount(number: str, half: float, capped: float, points: bool) -> Amount:
    """A number as a verdict has it: the sum with users capped where only that is narrow, and said so."""
    if half > CLEAR >= capped and not points:
        return Amount(f"{number} with users capped", capped)
    return Amount(number, half, points)


def reach(line: Mapping[str, Any]) -> float:
    """How far the interval reaches from the estimate, to the farther end."""
    low, high = line.get("low"), line.get("high")
    if low is None or high is None:
        return math.inf
    middle = line.get("estimate")
    return (high - low) / 2 if middle is None else max(high - middle, middle - low)


def _relative(line: Mapping[str, Any]) -> float:
    middle = line.get("estimate")
    return reach(line) / abs(middle) if middle else math.inf


def _people(
    facts: Facts,
    statement: Mapping[str, Any],
    mechanism: Mapping[str, Any],
    measurements: Sequence[Any],
    tables: Mapping[str, pa.Table],
) -> People | None:
    if facts.schema.user is None or facts.schema.max_rows_per_user == 1:
        return None
    kept = isinstance(mechanism.get("users"), Mapping)
    try:
        known = people_facts(statement, facts.schema, measurements, tables)
    except UsageError:
        return People(kept=kept)
    return People(tuple(known.schema.modelled), _half_of_users(known), kept)


def _half_of_users(known: PeopleFacts) -> float:
    """The half-width of a share of users, by their number of rows or by the first fact."""
    names = tuple(known.schema.modelled)
    table = known.table((ROWS if ROWS in names else names[0],)) if names else None
    total = 0.0 if table is None else float(table.x.sum())
    if table is None or table.known is not None or not total > 0:
        return math.inf
    return Z95 * float(np.median(np.sqrt(table.cell_variances()))) / total
