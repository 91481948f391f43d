"""Child rows of synthetic parents: how many each has, and their codes given the parent's.

All of it is post-processing of what a run on linked tables released. How many parents have how many
rows is drawn from the model of the parents, which knows their other columns as well: no posterior of
one histogram says it. Of `rows_per_user` it takes what no model of bins has: in which bins somebody is
for sure (`last_bin`), and how many rows there are inside a bin (`places`).
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..measurement import Measurement
from ..rows_per_user import last_bin, places
from ..tables.linked_tables import LEVELS, Links
from .linked_levels import Level, counts_of, level_share, possible_rows, with_levels

Codes = dict[str, np.ndarray]


def child_codes(
    links: Links,
    name: str,
    parents: Mapping[str, np.ndarray],
    owner: np.ndarray,
    draw_child: Callable[[Codes], Codes],
    parts: Mapping[str, tuple[float, float] | None],
    seed: int,
) -> Codes:
    """Codes of a child's rows. `parents`: codes of their table; `owner`: the parent of each row, the
    rows of one parent in the order of their places. `draw_child`: codes of the other columns, for
    rows of which some columns are known. `parts`: see `parts_between`."""
    rows = np.bincount(owner, minlength=len(parents[links.counts[name]]))
    given = {column: parents[a][owner] for column, a in links.joined[name].items()}
    given[links.counts[name]] = parents[links.counts[name]][owner]
    if name in links.places:
        given[links.places[name]] = links.place_codes(places_of(owner), name)
    codes = draw_child(given) | given
    own = links.linked.tables[name].columns
    columns = {
        a: Level(parents[level], own[a].base, parts[a]) for level, a in links.levels[name].items()
    }
    fixed = with_levels(codes, owner, rows, columns, seed)
    if fixed:  # all else again, given these columns
        codes = draw_child(given | fixed) | given | fixed
    schema = links.schemas[links.names.index(name)]
    return possible_rows(codes, schema, frozenset(given))


def parts_between(
    links: Links, name: str, of_parents: Sequence[Measurement], of_rows: Sequence[Measurement]
) -> dict[str, tuple[float, float] | None]:
    """By column of a child table, the part of its variance that levels of parents have, with its standard
    error, by what was measured of parents and rows."""
    schema = links.schemas[links.names.index(name)]
    out = {}
    for level, a in links.levels[name].items():
        codes = counts_of(of_rows, a, schema.domain[a])
        base = links.linked.tables[name].columns[a].base
        ordered = None if codes is None else (codes[0][:base], codes[1][:base])
        out[a] = level_share(counts_of(of_parents, level, LEVELS + 1), ordered)
    return out


def places_of(owner: np.ndarray) -> np.ndarray:
    """int64: the place (1, 2, ...) of each row among the rows of its parent, in their order."""
    order = np.argsort(owner, kind="stable")
    sorted_owner = owner[order]
    place = np.empty(len(owner), np.int64)
    place[order] = np.arange(len(owner)) - np.searchsorted(sorted_owner, sorted_owner) + 1
    return place


def last_clear_bin(measurements: Sequence[Measurement], column: str, bins: int) -> int | None:
    """The last bin of a column of numbers of rows that stands out of noise; None: not measured."""
    ones = [
        m
        for m in measurements
        if m.clique == (column,) and m.query is None and m.values.size == bins
    ]
    if not ones:
        return None
    weights = [1 / m.variances for m in ones]
    values = sum(w * m.values for w, m in zip(weights, ones)) / sum(weights)
    return max(last_bin(values, 1 / np.sqrt(sum(weights))), int(np.argmax(values)))


def without_noise(
    codes: np.ndarray, measurements: Sequence[Measurement], column: str, bins: int, seed: int
) -> np.ndarray:
    """The bins of numbers of rows. Parents in bins beyond the last that stands out of noise get the
    bin of another parent. A few of them would have more rows than all others together."""
    last = last_clear_bin(measurements, column, bins)
    if last is None or not len(codes):
        return codes
    kept = np.flatnonzero(codes <= last)
    out = codes.copy()
    beyond = np.flatnonzero(codes > last)
    generator = np.random.Generator(np.random.Philox(key=[seed, 6]))
    out[beyond] = codes[generator.choice(kept, len(beyond))] if len(kept) else 0
    return out


def rows_of(codes: np.ndarray, links: Links, child: str, seed: int) -> np.ndarray:
    """A number of child rows for each code of their bins; inside a bin as `rows_per_user` says."""
    edges = links.edges(child)
    ends = np.append(edges[1:], links.most_rows(child) + 1)
    uniform = np.random.Generator(np.random.Philox(key=[seed, 5])).random(len(codes))
    return places(codes, edges, ends, uniform)
