"""Columns that follow from another column, where both have many codes (zip and town, a code and its
copy).

A model would need a table of all combinations. Instead one release says, for every such pair, how
many rows have the B that is most frequent among rows of their A. Where that is nearly all of them,
one column leaves the model. Its values are drawn, given the value of the other column, from a noisy
table of the pair. Only the large cells of that table are released (docs/explain/wide-pairs.md). Its
relations to all other columns are those of the column that it is drawn from. Everything here uses
released numbers and public facts only."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import permutations

import numpy as np
from msgspec import Struct

from ...division import QUESTION, SCREENING, portion
from ...domain import Clique, Domain
from ...measurement import Measurement
from ...model.row_facts import DrawnColumn
from ...release.filtered_marginals import Filtered
from ...release.gateway import Session
from ...schema.constraints import FOLLOW_CELLS
from ...significance import LIKELY
from .code_compression import merge_rare
from .one_ways import averaged, effective_cells, estimate_total, part_mu

# Constants, chosen on generated tables of 100,000 rows (1,500 zips and 900 towns; a copy of 2,000
# codes).
FOLLOWS = 0.75
"""B follows from A if knowing A corrects this part of the errors of guessing the most frequent B of all.
Of 1,500 and 1,000 postcodes and 2,000 copied codes, .5 finds the same (`python -m bench.tune --set
mechanisms.shared.dependencies.FOLLOWS=0.5 --epsilon 1 10 --tables postcodes postcodes-few copied`)."""
MOST_PAIRS = 1 << 10
LIFTED = 1 << 12
"""The most empty cells that noise is expected to lift above the threshold."""
STRICT = 0.005
"""Empty cells that noise is expected to lift, per value of the known column, above the threshold of
cells that are taken as they are. Below it only the largest cell of a value is."""
PAIR_CELLS = 8
"""Effective cells of the pair that joins a column to the model, per effective code of the column.
The budget is divided by it between the model and the tables outside it."""


class Dependency(Struct, frozen=True):
    """`column` is drawn given `source`. `part`: the share of rows that can be guessed from the
    source."""

    column: str
    source: str
    part: float


def wide_pairs(
    domain: Domain, excluded: Collection[str], limit: int, most: float = FOLLOW_CELLS
) -> list[Clique]:
    """Ordered pairs (A, B) for which it is worth asking whether B follows from A. Such a pair has
    more cells than `most`: than a column that follows by a constraint may have in the model. Either B
    has more than half as many codes as A, or the pair has more cells than the model may have. Columns
    to be drawn are none of the `excluded`."""
    largest = max(domain.values(), default=0)
    wide = [a for a, n in domain.items() if n * largest > most]
    pairs: list[Clique] = []
    for a, b in permutations(wide, 2):
        cells = domain[a] * domain[b]
        fine = 2 * domain[b] > domain[a]
        if cells > most and (fine or cells > limit) and (b if fine else a) not in excluded:
            pairs.append((a, b))
    return sorted(pairs, key=lambda p: -domain[p[0]] * domain[p[1]])[:MOST_PAIRS]


def find(
    session: Session,
    ones: Sequence[Measurement],
    share: float,
    excluded: Collection[str],
    limit: int,
) -> list[Dependency] | None:
    """The dependencies that a release for `share` of mu^2 finds, each after those that its source
    needs; None if there is no pair to ask about, and nothing was released. A pair with more cells than
    rows is asked about too: a model would know less than a row of each cell."""
    codes = {m.clique[0]: merge_rare(m, 0.0) for m in ones}
    domain = session.domain.recoded(codes)
    total = estimate_total(ones)
    pairs = wide_pairs(domain, excluded, limit, min(FOLLOW_CELLS, max(total, 0.0)))
    cells = session.domain.cells
    pairs = [p for p in pairs if FOLLOW_CELLS < cells(p) <= session.most_filtered]
    if not pairs or not total > 0:
        return None
    rare = {a: n - 1 for a, n in domain.items() if n < session.domain[a]}
    mu = part_mu(session, share)
    released = session.guesses(pairs, mu=mu, label="dependencies", recode=codes, skip=rare)
    largest = {m.clique[0]: min(1.0, max(0.0, float(np.max(m.values)) / total)) for m in ones}
    covered = {m.clique[0]: covered_rows(m) / total for m in ones}
    found: dict[str, Dependency] = {}
    for i in np.argsort(-released.values, kind="stable"):
        a, b = pairs[i]
        rows = float(released.values[i])
        part = min(
            1.0,
            (rows - LIKELY * float(released.sigma[i]))
            / (total * max(0.5, covered[a] * covered[b])),
        )
        if part - largest[b] < FOLLOWS * (1 - largest[b]):
            continue
        column, source = (b, a) if 2 * domain[b] > domain[a] else (a, b)
        if column not in found and column not in sources(found, source):
            found[column] = Dependency(column, source, part)
    return sorted(found.values(), key=lambda d: len(sources(found, d.source)))


def covered_rows(one: Measurement) -> float:
    """Rows of the values whose noisy counts are positive, without the noise that made them so. Let
    noisy counts y have variance v and density f. By Tweedie, the expected counts above 0 sum up to
    the integral of y f(y) + v f'(y). That is the sum of the y above 0 minus v f(0)."""
    sigma = np.sqrt(one.variances)
    near = np.abs(one.values) < sigma / 2
    return float(np.sum(one.values[one.values >= 0]) - np.sum(sigma[near]))


def sources(found: Mapping[str, Dependency], column: str) -> list[str]:
    """The column, its source, the source of that, and so on."""
    out = [column]
    while out[-1] in found:
        out.append(found[out[-1]].source)
    return out


def tables_part(found: Sequence[Dependency], ones: Sequence[Measurement], sigma: float) -> float:
    """The part of what is left of the budget that pays for the tables of the dependencies. Portions
    are by effective cells, as for marginals of the model (see `division`). At least the share of
    screening is left: the model may have no other column."""
    codes = {m.clique[0]: max(1.0, effective_cells(np.maximum(m.values, 0), sigma)) for m in ones}
    drawn = {d.column for d in found}
    inner = sorted(n for a, n in codes.items() if a not in drawn)[:-1]
    tables = math.fsum(portion(codes[d.source]) for d in found)
    return min(1 - SCREENING, tables / (tables + math.fsum(portion(PAIR_CELLS * n) for n in inner)))


class DependentColumns(Struct, frozen=True, eq=False):
    """Columns that are drawn from other columns instead of being modelled, each after its source,
    with the released tables. `share`: the share of mu^2 that was spent on them."""

    found: Sequence[Dependency] = ()
    tables: Sequence[Filtered] = ()
    share: float = 0.0

    @property
    def columns(self) -> set[str]:
        return {d.column for d in self.found}

    @property
    def notes(self) -> tuple[str, ...]:
        why = "and is drawn given it; it is related to other columns only through that one"
        about = [
            f"{d.column} follows from {d.source} in about {d.part:.0%} of the rows"
            for d in self.found
        ]
        return tuple(f"{text} {why}" for text in about)

    @property
    def details(self) -> dict[str, dict[str, str]]:
        return {"drawn_given": {d.column: d.source for d in self.found}} if self.found else {}

    def conditionals(self, shape: Mapping[str, np.ndarray]) -> list[DrawnColumn]:
        """How the columns are drawn; `shape`: rows of every column's values."""
        return [drawn_column(d, t, shape) for d, t in zip(self.found, self.tables)]

    def better(self, ones: Sequence[Measurement]) -> list[Measurement]:
        """The 1-ways, averaged with what the tables say about the columns that others are drawn
        from. Where a value has cells far above the noise, these hold its rows, up to the part that
        cannot be guessed. Other values share the remaining rows by how far their largest cell is
        above half the threshold. In simulations, with Zipf's law and with equal numbers of rows,
        the rows of a value grow about so."""
        out = {m.clique[0]: m for m in ones}
        total = estimate_total(ones)
        for d, table in zip(self.found, self.tables):
            one = out[d.source]
            given, _, rows = cells_of(table)
            sure = rows > sure_rows(table)
            size = one.values.size
            sums, cells = (np.bincount(given[sure], w, size) for w in (rows[sure], None))
            largest = np.zeros(size)
            np.maximum.at(largest, given, rows)
            share = np.where(
                cells > 0, 0.0, np.maximum(largest, table.threshold) - table.threshold / 2
            )
            few = share * max(0.0, total - float(sums.sum())) / max(1e-9, float(share.sum()))
            variance = table.sigma**2 * cells + np.square((1 - d.part) * sums)
            known = np.sqrt(np.where(cells > 0, variance, (table.threshold / 2) ** 2))
            out[d.source] = averaged([one], [Measurement(one.clique, sums + few, known)])[0]
        return list(out.values())


def measured(
    session: Session,
    ones: Sequence[Measurement],
    rest: float,
    spent: float,
    excluded: Collection[str],
    limit: int,
) -> DependentColumns:
    """Finds dependencies and measures their tables, within `rest` of mu^2, of which the 1-ways
    `spent` some. `excluded`: columns that are not to be drawn given others; `limit`: cells that the
    model may have."""
    asked = rest * QUESTION
    found = find(session, ones, asked, excluded, limit)
    if not found:
        return DependentColumns(share=0.0 if found is None else asked)
    left = rest - spent - asked
    sigma = session.clip / part_mu(session, left / len(ones))
    share = left * tables_part(found, ones, sigma)
    mu = part_mu(session, share / len(found))
    lifted = [min(LIFTED, 2 * session.domain[d.source]) for d in found]
    labels = [f"{d.column} given {d.source}" for d in found]
    about = zip(found, lifted, labels)
    tables = [
        session.filtered((d.source, d.column), mu=mu, lifted=n, label=text) for d, n, text in about
    ]
    return DependentColumns(found, tables, asked + share)


def cells_of(table: Filtered) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(value of the source, value of the column, rows) of the released cells: by source, largest
    first."""
    given, code = np.divmod(table.cells, table.shape[1])
    order = np.lexsort((-table.values, given))
    return given[order], code[order], table.values[order]


def sure_rows(table: Filtered) -> float:
    """Rows above which a cell is taken as it is."""
    from scipy.special import ndtri

    return table.sigma * -float(ndtri(min(0.5, STRICT / table.shape[1])))


def drawn_column(
    found: Dependency, table: Filtered, shape: Mapping[str, np.ndarray]
) -> DrawnColumn:
    """How a column is drawn given another, from the released cells. Of every value of the source
    the largest cell is used, and all that are sure. Values of the source without cells get what
    these leave of the column's 1-way."""
    given, code, rows = cells_of(table)
    keep = (np.diff(given, prepend=-1) > 0) | (rows > sure_rows(table))
    given = given[keep]
    code = code[keep]
    rows = rows[keep]
    start = np.searchsorted(given, np.arange(table.shape[0] + 1))
    whole = np.maximum(shape[found.column], 1e-9)
    left = np.maximum(shape[found.column] - np.bincount(code, rows, whole.size), 0)
    rest = np.cumsum(left if left.any() else whole)
    return DrawnColumn(found.column, found.source, code, start, np.cumsum(rows), rest)
