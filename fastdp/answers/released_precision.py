"""The precision of a finished run, from what it released alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, structs

from .._util.lazy import pa
from ..errors import UsageError
from .best_linear import Table, estimate
from .clipping import Z95
from .evidence import Marginal
from .expected_precision import zipf
from .facts import Facts
from .people_facts import ROWS, PeopleFacts, people_facts
from .precision import (
    FAITHFUL,
    Amount,
    Known,
    Learnt,
    People,
    Precision,
    asked_amount,
    half_width,
    means,
    reach,
    relative_reach,
)

ENOUGH = 20
"""Codes of either column from which the measurements of its columns alone are left out. They tell
sums of so many cells, which take at most a twentieth each off the variance of a cell, and a system
of as many equations as there are sums takes seconds."""


def released_precision(
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
        amounts=tuple(means(facts)),
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
    half = half_width(table.x, np.sqrt(variances), facts.clipping, rows, table.axes)
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


def _asked(numbers: pa.Table | None) -> list[Amount]:
    """Numbers that were asked for beforehand; of one with groups the middle one."""
    widths: dict[str, list[tuple[float, float]]] = {}
    for line in [] if numbers is None else numbers.to_pylist():
        points = line["number"].lstrip().startswith("share")
        capped = {"estimate": "capped", "low": "capped_low", "high": "capped_high"}
        cut = math.inf
        if line.get("capped") is not None:
            cut = relative_reach({k: line[v] for k, v in capped.items()})
        half = reach(line) if points else relative_reach(line)
        widths.setdefault(line["number"], []).append((half, cut))
    out = []
    for number, halves in widths.items():
        whole, cut = np.median(halves, axis=0).tolist()
        out.append(asked_amount(number, whole, cut, number.lstrip().startswith("share")))
    return out


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
    if table is None or table.known is not None:
        return math.inf
    total = float(table.x.sum())
    if not total > 0:
        return math.inf
    return Z95 * float(np.median(np.sqrt(table.cell_variances()))) / total
