"""Histograms of users on one machine: rows are grouped by user, then the keys in which each user
counts are chosen. Views, too, are made here: tables in which a user's rows depend on that user's
rows alone."""

import numpy as np

from .. import user_views, userkeys
from .._core import bound, count
from ..domain import Domain, code_dtype
from ..errors import DataError, UsageError, is_whole
from ..tables.table import Table, as_schema
from ..users.user_facts import facts_of

DENSE_HISTOGRAM = 1 << 31
"""The most keys of a histogram, which is returned as one dense array."""

POSITION_TABLE = 1 << 27
"""Groups of a grid of at most this many cells are looked up in a table (4 bytes per cell); groups
of larger grids by binary search."""


def histogram(table: Table, key: userkeys.UserKey, cap: int, threads: int) -> np.ndarray:
    """int64[key.size]: see `Counter.user_histogram`."""
    key = checked(table.domain, key, cap)
    for name in key.domain_columns:
        if name not in table.codes:
            raise DataError(f"column {name!r} was not read; read the table with it")
    if isinstance(key, userkeys.RowsPerUser):
        return _rows_per_user(table, key)
    if isinstance(key, userkeys.RowsUpTo):
        rows = np.minimum(table.rows_per_user().astype(np.int64), key.most)
        return np.array([(rows * key.units // key.most).sum()], np.int64)
    if isinstance(key, userkeys.WithoutId):
        return np.array([table.null_ids], np.int64)
    if isinstance(key, userkeys.MostCommon):
        return _most_common(table, key, threads)
    if isinstance(key, userkeys.Groups):
        return _groups(table, key, int(cap), threads)
    if isinstance(key, userkeys.Agreement):
        return _agreement(table, key, threads)
    if isinstance(key, userkeys.Disagreement):
        return _disagreement(table, key, threads)
    if isinstance(key, userkeys.Succession):
        return _succession(table, key, threads)
    raise UsageError(f"unknown kind of user key: {type(key).__name__}")


def checked(domain: Domain, key: userkeys.UserKey, cap: int) -> userkeys.UserKey:
    """The key bound to the domain; UsageError if it, or the cap, cannot be counted."""
    if not is_whole(cap, 1):
        raise UsageError(f"cap must be a whole number >= 1, got {cap!r}")
    key = key.bind(domain)
    if key.size > DENSE_HISTOGRAM:
        raise UsageError(
            f"{type(key).__name__} has {key.size} keys, the limit is 2^31; use fewer cells"
        )
    return key


def _groups_of(rows: np.ndarray, edges: tuple[int, ...]) -> np.ndarray:
    """int32: the group of each number of rows, -1 below the first edge."""
    return (np.searchsorted(np.array(edges), rows, side="right") - 1).astype(np.int32)


def _rows_per_user(table: Table, key: userkeys.RowsPerUser) -> np.ndarray:
    rows = table.rows_per_user()
    bins = _groups_of(rows, key.edges)
    return np.bincount(bins[(bins >= 0) & (rows > 0)], minlength=key.size).astype(np.int64)


def _agreement(table: Table, key: userkeys.Agreement, threads: int) -> np.ndarray:

    group_of = _groups_of(table.rows_per_user(), key.edges)
    out = np.zeros((len(key.edges), key.numbers), np.int64)
    out[:, -1] = np.bincount(group_of[group_of >= 0], minlength=len(key.edges)) * key.units
    for i, (columns, width) in enumerate(map(key.split, key.features)):
        start, values, _ = _grouped(table, _cells(table, columns, threads) // np.uint64(width))
        cells = table.domain.cells(columns)
        agreeing = bound.agreement(start, values, group_of, cells, len(key.edges), threads)
        out[:, i] = 2 * agreeing - out[:, -1]
    return out.reshape(-1)


def _disagreement(table: Table, key: userkeys.Disagreement, threads: int) -> np.ndarray:
    """Users whose rows differ less those whose rows agree, as `userkeys.Disagreement` says."""
    rows = table.rows_per_user().astype(np.int64)
    several = np.flatnonzero(rows > 1)
    out = np.full(key.size, len(several), np.int64)
    if not len(several):
        return out
    for i, name in enumerate(key.columns):
        start, codes, _ = _grouped(table, _cells(table, (name,), threads))
        differ = np.zeros(len(codes), np.uint8)  # whether a row differs from the one before it
        differ[1:] = codes[1:] != codes[:-1]
        differ[start[:-1][rows > 0]] = 0
        of_user = np.add.reduceat(differ, start[several], dtype=np.int64)
        out[i] = 2 * np.count_nonzero(of_user) - len(several)
    return out


def _succession(table: Table, key: userkeys.Succession, threads: int) -> np.ndarray:
    """How users' rows follow each other, as `userkeys.Succession` says."""
    start, rows, time = in_order(table, key.order, key.domain_columns, threads)
    length = np.diff(start)
    groups = len(key.edges)
    group_of = _groups_of(length, key.edges)
    out = {name: np.zeros(size, np.int64) for name, size in key.lengths.items()}
    out["users"] += key.units * np.bincount(group_of[group_of >= 0], minlength=groups)
    across = []
    for i, (x, y) in enumerate(key.pairs):
        this, that = (table.codes[name][rows].astype(np.uint32) for name in (x, y))
        sums = bound.neighbours(
            start=start,
            this=this,
            that=that,
            group_of=group_of,
            groups=groups,
            keys=table.domain[x],
            threads=threads,
        )
        out["near"][i * groups : (i + 1) * groups] = 2 * sums[:-1] - out["users"]
        across += [] if x == y else [2 * sums[-1] - out["users"].sum()]
    out["any"][:] = across
    users = np.repeat(np.arange(len(length)), length)
    follows = np.flatnonzero(users[1:] == users[:-1])
    bins = gap_bins(np.diff(time)[follows], key.gaps)
    cell, count = np.unique(users[follows] * key.gaps + bins, return_counts=True)
    np.add.at(out["gaps"], cell % key.gaps, count * key.units // (length[cell // key.gaps] - 1))
    lead = key.order[0]
    there = length > 0
    for name, place in (("first", start[:-1]), ("last", start[1:] - 1)):
        code = table.codes[lead][rows[place[there]]].astype(np.int64)
        out[name] += key.units * np.bincount(
            code * key.ends // table.domain[lead], minlength=key.ends
        )
    return np.concatenate(list(out.values()))


def gap_bins(gaps: np.ndarray, bins: int) -> np.ndarray:
    """The bin of each gap: 0 for 0, b for 2^(b - 1) to 2^b - 1, the last for all above."""
    edges = np.int64(1) << np.arange(min(bins - 1, 62), dtype=np.int64)
    return np.searchsorted(edges, gaps, side="right")


def in_order(
    table: Table, order: tuple[str, ...], content: tuple[str, ...], threads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(start, rows, time): the numbers of each user's rows in order of the columns `order`. Ties go
    by the tie numbers of the codes of `content`. Those of user u start at start[u]. time: the rows'
    numbers in C order over `order`."""
    time = _cells(table, order, threads)
    start, rows, hashes = _grouped(table, np.arange(table.rows, dtype=np.uint64))
    blocks = [_cells(table, block, threads) for block in userkeys.tie_blocks(table.domain, content)]
    words = np.stack([block.astype(np.uint32) for block in blocks], axis=1)
    bound.order(start, rows, hashes, time, np.ascontiguousarray(words), threads)
    return start, rows, time[rows].astype(np.int64)


def view_of(table: Table, view: user_views.View, threads: int) -> Table:
    """The table that a view makes of a table that holds whole users."""

    domain = view.domain(table.domain)
    rows = table.rows_per_user()
    group = _groups_of(rows, view.edges).astype(code_dtype(len(view.edges)))
    if isinstance(view, user_views.UserTable):
        there = rows > 0
        codes = {name: _modes(table, name, threads)[there] for name in view.columns}
        codes[view.name] = group[there]
        return Table(as_schema(domain), codes, rows=int(there.sum()), public=table.public)
    if isinstance(view, user_views.UserFacts):
        return _facts(table, view, threads)
    codes = {**table.codes, view.name: group if table.user is None else group[table.user]}
    return table.with_codes(domain, codes)


def _facts(table: Table, view: user_views.UserFacts, threads: int) -> Table:
    """The table of facts about users, of users with rows."""
    there = table.rows_per_user() > 0
    domain = view.domain(table.domain)
    start = np.append(0, np.cumsum(table.rows_per_user().astype(np.int64)[there]))
    if not there.any():
        made = {name: np.empty(0, np.int64) for name in domain}
    else:
        made = facts_of(
            view,
            table.schema,
            start,
            lambda name: _grouped(table, _cells(table, (name,), threads))[1],
            lambda name: _modes(table, name, threads)[there],
        )
    codes = {name: made[name].astype(code_dtype(size)) for name, size in domain.items()}
    return Table(as_schema(domain), codes, rows=len(start) - 1, public=table.public)


def _modes(table: Table, name: str, threads: int) -> np.ndarray:
    """The most common code of each user."""

    if name not in table.codes:
        raise DataError(f"column {name!r} was not read; read the table with it")
    start, values, hashes = _grouped(table, _cells(table, (name,), threads))
    modes = bound.modes(start, values, hashes, table.domain[name], threads)
    return modes.astype(table.codes[name].dtype)


def _cells(table: Table, columns: tuple[str, ...], threads: int) -> np.ndarray:

    rows = count.Rows([table.codes[n] for n in columns], None, None, table.rows)
    return count.cells(rows, np.array(table.domain.shape(columns), np.uint64), threads)


def _grouped(table: Table, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(start, values by user, hash of each user); without a user column every row is a user of its
    own."""

    if table.user is None or table.user_hash is None:
        return np.arange(table.rows + 1), values, np.zeros(table.rows, np.uint64)
    start, sorted_values = bound.group(table.user, table.rows_per_user(), values)
    return start, sorted_values, table.user_hash


def _most_common(table: Table, key: userkeys.MostCommon, threads: int) -> np.ndarray:

    cells = _cells(table, key.columns, threads)
    if key.labels is not None:
        # A negative label turns into a huge unsigned key, which the kernel does not count.
        cells = key.labels.view(np.uint64)[cells.view(np.int64)]
    start, values, hashes = _grouped(table, cells)
    return bound.most_common(start, values, hashes, key.size, threads)


def _groups(table: Table, key: userkeys.Groups, cap: int, threads: int) -> np.ndarray:
    """Users by their group and their number of rows in it, as `userkeys.Groups` says."""
    start, values, hashes = _grouped(table, _cells(table, key.columns, threads))
    grid = int(np.prod(np.array(key.shape, object))) * key.t_max
    position = None
    if key.cells is not None and grid <= POSITION_TABLE:
        position = np.full(grid, -1, np.int32)
        position[key.cells] = np.arange(len(key.cells), dtype=np.int32)
    return bound.groups(
        start=start,
        sorted=values,
        user_hash=hashes,
        cells=key.cells,
        position=position,
        size=key.size,
        t_max=key.t_max,
        cap=cap,
        threads=threads,
    )
