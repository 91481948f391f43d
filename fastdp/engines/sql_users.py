"""Histograms of users and tables of users, by SQL.

What one user adds is decided in the database by comparisons and counts. Where `userkeys` divides,
the database returns how many users have each pair of dividend and number of rows. The division is
made here, in whole numbers of any size; `_bounded` cuts them off. Ties are broken by the tie
numbers of docs/explain/ties.md, which the database computes from the two words a and b of each
user's id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import user_views, userkeys
from ..errors import UsageError
from ..measurement import MOST
from ..userkeys import TIE_BITS, UNITS
from .sql_dialects import HALF, PRIME, Dialect
from .sql_expressions import search
from .sql_table import CodedTable

DIGIT = 1 << TIE_BITS


def group_of(x: str, edges: Sequence[int]) -> str:
    """The group of a number x >= edges[0]: edges[g] <= x < edges[g + 1], the last one open."""
    groups = list(range(len(edges)))
    return search(lambda edge: f"{x} >= {edge}", list(edges[1:]), groups)


def bin_of(x: str, edges: Sequence[int]) -> str:
    """The number of edges that are at most x."""
    return search(lambda edge: f"{x} >= {edge}", list(edges), list(range(len(edges) + 1)))


def _groups(lengths: np.ndarray, edges: Sequence[int]) -> np.ndarray:
    return np.searchsorted(np.array(edges), lengths, side="right") - 1


def _binned(bins: np.ndarray, numbers: np.ndarray, size: int) -> np.ndarray:
    out = np.zeros(size, np.int64)
    np.add.at(out, bins[bins >= 0], numbers[bins >= 0])
    return out


def _bounded(numbers: np.ndarray) -> np.ndarray:
    """Python's whole numbers as int64, cut off at +-MOST (docs/explain/bounds.md)."""
    return np.array([min(max(int(x), -MOST), MOST) for x in numbers.reshape(-1)], np.int64)


def histogram(rows: CodedTable, key: userkeys.UserKey, cap: int) -> np.ndarray:
    """int64[key.size]: see `Counter.user_histogram`. The key is bound."""
    lengths, having = rows.lengths, rows.having
    if isinstance(key, userkeys.RowsPerUser):
        return _binned(_groups(lengths, key.edges), having, key.size)
    if isinstance(key, userkeys.RowsUpTo):
        pairs = zip(lengths.tolist(), having.tolist())
        shares = [users * (min(r, key.most) * key.units // key.most) for r, users in pairs]
        return _bounded(np.array([sum(shares)], object))
    if isinstance(key, userkeys.WithoutId):
        return np.array([rows.null_ids], np.int64)
    if isinstance(key, userkeys.MostCommon):
        return _most_common(rows, key)
    if isinstance(key, userkeys.Groups):
        return _cells_of_groups(rows, key, cap)
    if isinstance(key, userkeys.Agreement):
        return _agreement(rows, key)
    if isinstance(key, userkeys.Disagreement):
        return _disagreement(rows, key)
    if isinstance(key, userkeys.Succession):
        return _succession(rows, key)
    raise UsageError(f"unknown kind of user key: {type(key).__name__}")


# --- ties


def _tied(rows: CodedTable, select: str, words: Sequence[str], present: Sequence[str] = ()) -> str:
    """A select with one more column z, the tie number of the words among the rows of one user u.
    present: of the last words, the condition under which each is there. Each step is a select of its
    own, since it uses the one before twice."""
    if not rows.people:
        return f"SELECT *, 0 AS z FROM ({select}) AS t"
    joined = (
        f"SELECT t.*, COALESCE(h.a, 0) AS a, COALESCE(h.b, 0) AS b FROM ({select}) AS t"
        f" LEFT JOIN {rows.people} AS h ON h.u = t.u"
    )
    return tie_number(rows.dialect, joined, words, present)


def tie_number(d: Dialect, select: str, words: Sequence[str], present: Sequence[str] = ()) -> str:
    """A select of rows with the two words a and b of their user, with one more column z: see `_tied`."""
    last = "a"
    conditions = [""] * (len(words) - len(present)) + list(present) + [""]
    for i, (word, there) in enumerate(zip([*words, "b"], conditions, strict=True)):
        x = f"tx{i}"
        square = f"ts{i}"
        power = f"tz{i}"
        sum_of = f"{last} + CAST({word} AS {d.whole})"
        select = f"SELECT *, {d.remainder(sum_of, PRIME)} AS {x} FROM ({select}) AS t{i}x"
        squared = d.remainder(f"{x} * {x}", PRIME)
        select = f"SELECT *, {squared} AS {square} FROM ({select}) AS t{i}s"
        fourth = d.remainder(f"{square} * {square}", PRIME)
        fifth = d.remainder(f"{fourth} * {x}", PRIME)
        if there:
            fifth = f"CASE WHEN {there} THEN {fifth} ELSE {last} END"
        select = f"SELECT *, {fifth} AS {power} FROM ({select}) AS t{i}z"
        last = power
    return f"SELECT *, {last} AS z FROM ({select}) AS tied"


def hash_words(d: Dialect, hashed: str, first: str, second: str) -> str:
    """The two words of a SHA-256, a column of hexadecimal digits, under two names."""
    parts = ((1, first), (9, second))
    numbers = [(d.hex_number(f"substr({hashed}, {at}, 8)"), name) for at, name in parts]
    return ", ".join(f"{d.remainder(number, PRIME)} AS {name}" for number, name in numbers)


def _tied_keys(rows: CodedTable, select: str, keys: int) -> str:
    """The same for one key k below `keys`, by its digits."""
    if keys <= DIGIT:
        return _tied(rows, select, ["k"])
    d = rows.dialect
    words = [d.remainder("k", DIGIT), d.remainder(d.divided("k", DIGIT), DIGIT)]
    present = [f"k >= {DIGIT}"]
    if keys > 1 << (2 * TIE_BITS):
        words.append(d.divided("k", 1 << (2 * TIE_BITS)))
        present.append(f"k >= {1 << (2 * TIE_BITS)}")
    return _tied(rows, select, words, present)


def _first(rows: CodedTable, select: str, keys: int, cap: int, columns: str) -> str:
    """Of each user's rows (u, k, ...) the first `cap` by tie number, then key."""
    if not rows.people:
        return f"SELECT {columns} FROM ({select}) AS alone"
    place = "row_number() OVER (PARTITION BY u ORDER BY z, k) AS i"
    ranked = f"SELECT {columns}, {place} FROM ({_tied_keys(rows, select, keys)}) AS ranked"
    return f"SELECT {columns} FROM ({ranked}) AS first_ones WHERE i <= {cap}"


def _modes(rows: CodedTable, key: str, source: str, keys: int) -> str:
    """A select (u, k): the most common key of each user."""
    whole = rows.dialect.whole
    keyed = f"SELECT u, CAST({key} AS {whole}) AS k FROM {source}"
    counted = f"SELECT u, k, count(*) AS n FROM ({keyed}) AS keyed WHERE k >= 0 GROUP BY u, k"
    most = f"SELECT u, k, n, max(n) OVER (PARTITION BY u) AS m FROM ({counted}) AS counted"
    many = "count(*) OVER (PARTITION BY u) AS ties"
    tops = f"SELECT u, k, {many} FROM ({most}) AS most WHERE n = m"
    if not rows.people:
        return f"SELECT u, k FROM ({tops}) AS tops"
    # Tie numbers are computed for users who have ties, and for nobody else.
    clear = f"SELECT u, k FROM ({tops}) AS tops WHERE ties = 1"
    tied = f"SELECT u, k FROM ({tops}) AS tops WHERE ties > 1"
    return f"{clear} UNION ALL {_first(rows, tied, keys, 1, 'u, k')}"


# --- keys


def _most_common(rows: CodedTable, key: userkeys.MostCommon) -> np.ndarray:
    """Users by their most common cell, as `userkeys.MostCommon` says."""
    cell = rows.cell(key.columns)
    source = rows.table
    if key.labels is None:
        modes = _modes(rows, cell, source, key.size)
        return _binned(
            *_asked(rows, f"SELECT k, count(*) FROM ({modes}) AS m GROUP BY k"), key.size
        )
    labels = rows.database.load("labels", np.arange(len(key.labels)), [key.labels])
    try:
        source = f"{source} JOIN {labels} ON {labels}.k = {cell}"
        modes = _modes(rows, f"{labels}.v0", source, key.size)
        return _binned(
            *_asked(rows, f"SELECT k, count(*) FROM ({modes}) AS m GROUP BY k"), key.size
        )
    finally:
        rows.database.drop(labels)


def _cells_of_groups(rows: CodedTable, key: userkeys.Groups, cap: int) -> np.ndarray:
    """Users by their group and their number of rows in it, as `userkeys.Groups` says."""
    whole = rows.dialect.whole
    keyed = f"SELECT u, CAST({rows.cell(key.columns)} AS {whole}) AS k FROM {rows.table}"
    counted = f"SELECT u, k, count(*) AS n FROM ({keyed}) AS keyed GROUP BY u, k"
    times = f"CASE WHEN n > {key.t_max} THEN {key.t_max} ELSE n END"
    placed = f"SELECT u, k, k * {key.t_max} + {times} - 1 AS c FROM ({counted}) AS counted"
    cells = None
    if key.cells is not None:
        cells = rows.database.load("cells", key.cells, [np.arange(len(key.cells))])
        join = f"FROM ({placed}) AS p JOIN {cells} ON {cells}.k = p.c"
        placed = f"SELECT p.u AS u, p.k AS k, {cells}.v0 AS c {join}"
    grid = int(np.prod(np.array(key.shape, object)))
    first = _first(rows, placed, grid, cap, "u, k, c")
    try:
        return _binned(
            *_asked(rows, f"SELECT c, count(*) FROM ({first}) AS f GROUP BY c"), key.size
        )
    finally:
        if cells is not None:
            rows.database.drop(cells)


def _asked(rows: CodedTable, statement: str) -> tuple[np.ndarray, np.ndarray]:
    keys, counts = rows.database.ask(statement)
    return keys, counts


def _shares(rows: CodedTable, each: str, pairs: bool) -> list[tuple[int, int]]:
    """(R, sum of floor(2^20 a / b) over users with R rows) of a select (u, r, a) of users; b: R (R - 1),
    or R - 1. The database counts users by R and a; a may be wide."""
    high, low = rows.dialect.halves("a")
    found = rows.database.ask(
        f"SELECT r, {high}, {low}, count(*) FROM ({each}) AS each_user GROUP BY r, a"
    )
    out = []
    for r, many, rest, users in zip(*(column.tolist() for column in found), strict=True):
        a = many * HALF + rest
        out.append((r, users * (a * UNITS // (r * (r - 1) if pairs else r - 1))))
    return out


def _agreement(rows: CodedTable, key: userkeys.Agreement) -> np.ndarray:
    """How often two rows of one user agree, as `userkeys.Agreement` says."""
    groups = len(key.edges)
    d = rows.dialect
    out = np.zeros((groups, key.numbers), object)
    users = _binned(_groups(rows.lengths, key.edges), rows.having, groups)
    out[:, -1] = users.astype(object) * key.units
    for i, (columns, width) in enumerate(map(key.split, key.features)):
        cell = rows.cell(columns)
        cell = cell if width == 1 else d.divided(cell, width)
        keyed = f"SELECT u, r, {cell} AS k FROM {rows.table} WHERE r > 1"
        counted = f"SELECT u, r, count(*) AS n FROM ({keyed}) AS keyed GROUP BY u, r, k"
        pairs = f"sum({d.as_wide('n')} * (n - 1))"
        each = f"SELECT u, r, {pairs} AS a FROM ({counted}) AS counted GROUP BY u, r"
        for r, share in _shares(rows, each, pairs=True):
            group = int(_groups(np.array([r]), key.edges)[0])
            if group >= 0:
                out[group, i] += 2 * share
    out[:, :-1] -= out[:, -1:]
    return _bounded(out)


def _disagreement(rows: CodedTable, key: userkeys.Disagreement) -> np.ndarray:
    several = int(rows.having[rows.lengths > 1].sum())
    out = np.full(key.size, several, np.int64)
    columns = [rows.alias[name] for name in key.columns]
    ends = ", ".join(f"min({c}) AS low{i}, max({c}) AS high{i}" for i, c in enumerate(columns))
    each = f"SELECT u, {ends} FROM {rows.table} WHERE r > 1 GROUP BY u"
    differ = [f"CASE WHEN low{i} < high{i} THEN 1 ELSE 0 END" for i in range(len(columns))]
    sums = ", ".join(f"COALESCE(sum({one}), 0)" for one in differ)
    found = rows.database.ask(f"SELECT {sums} FROM ({each}) AS each_user")
    out[:-1] = [2 * int(users[0]) - several for users in found]
    return out


# --- order


def _succession(rows: CodedTable, key: userkeys.Succession) -> np.ndarray:
    """How users' rows follow each other, as `userkeys.Succession` says: windows over the ordered
    rows of each user."""
    out = {name: np.zeros(size, object) for name, size in key.lengths.items()}
    users = _binned(_groups(rows.lengths, key.edges), rows.having, len(key.edges))
    out["users"] += users.astype(object) * key.units
    table = rows.database.make("ordered", _in_order(rows, key))
    try:
        _add_pairs(rows, key, table, out)
        _add_gaps(rows, key, table, out["gaps"])
        for name, where in (("first", "i = 1"), ("last", "i = r")):
            _add_ends(rows, key, f"{table} WHERE {where}", out[name])
    finally:
        rows.database.drop(table)
    return _bounded(np.concatenate(list(out.values())))


def _in_order(rows: CodedTable, key: userkeys.Succession) -> str:
    """A select with each row's place `i` among its user's in order, the `gap` to the row before, and
    of pair number k the first column's code in the row before, `b<k>`."""
    codes = [rows.alias[name] for name in key.domain_columns]
    own = ", ".join(codes)
    blocks = userkeys.tie_blocks(rows.schema.domain, key.domain_columns)
    words = [f"w{i}" for i in range(len(blocks))]
    cells = [f"{rows.cell(block)} AS {word}" for block, word in zip(blocks, words)]
    moment = f"CAST({rows.cell(key.order)} AS {rows.dialect.whole}) AS moment"
    select = f"SELECT u, r, {own}, {moment}, {', '.join(cells)} FROM {rows.table}"
    before = "".join(f", lag({rows.alias[x]}) OVER w AS b{i}" for i, (x, _) in enumerate(key.pairs))
    order = ", ".join(["moment", "z", *words])
    return (
        f"SELECT u, r, {own}, row_number() OVER w AS i, moment - lag(moment) OVER w AS gap{before}"
        f" FROM ({_tied(rows, select, words)}) AS t"
        f" WINDOW w AS (PARTITION BY u ORDER BY {order})"
    )


def _add_pairs(
    rows: CodedTable, key: userkeys.Succession, table: str, out: dict[str, np.ndarray]
) -> None:
    """Add to `near` and `any` how often y of a row is x of the row before, or of any other."""
    groups = len(key.edges)
    across = 0
    for i, (x, y) in enumerate(key.pairs):
        same = f"CASE WHEN b{i} = {rows.alias[y]} THEN 1 ELSE 0 END"
        near = f"SELECT u, r, sum({same}) AS a FROM {table} WHERE r > 1 GROUP BY u, r"
        for r, share in _shares(rows, near, pairs=False):
            group = int(_groups(np.array([r]), key.edges)[0])
            if group >= 0:
                out["near"][i * groups + group] += 2 * share
        out["near"][i * groups : (i + 1) * groups] -= out["users"]
        if x != y:
            each = _any_pairs(rows.dialect, table, rows.alias[x], rows.alias[y])
            for r, share in _shares(rows, each, pairs=True):
                out["any"][across] += 2 * share if r >= key.edges[0] else 0
            out["any"][across] -= out["users"].sum()
            across += 1


def _add_gaps(rows: CodedTable, key: userkeys.Succession, table: str, out: np.ndarray) -> None:
    """Add the share of users' gaps that lie in each bin."""
    edges = [1 << b for b in range(min(key.gaps - 1, 62))]
    binned = f"SELECT u, r, {bin_of('gap', edges)} AS b FROM {table} WHERE i > 1"
    each = f"SELECT u, r, b, count(*) AS n FROM ({binned}) AS binned GROUP BY u, r, b"
    found = rows.database.ask(f"SELECT r, b, n, count(*) FROM ({each}) AS gaps GROUP BY r, b, n")
    for r, b, n, users in zip(*(column.tolist() for column in found), strict=True):
        out[b] += users * (n * UNITS // (r - 1))


def _add_ends(rows: CodedTable, key: userkeys.Succession, where: str, out: np.ndarray) -> None:
    """Add the users whose first or last row lies in each period."""
    lead = key.order[0]
    code = rows.alias[lead]
    codes, users = rows.database.ask(f"SELECT {code}, count(*) FROM {where} GROUP BY {code}")
    ends = codes * key.ends // rows.schema.domain[lead]
    np.add.at(out, ends, users.astype(object) * key.units)


def _any_pairs(d: Dialect, table: str, x: str, y: str) -> str:
    """A select (u, r, a): ordered pairs of a user's different rows, x of one being y of the other."""
    xs, ys = (
        f"SELECT u, r, {c} AS k, count(*) AS n FROM {table} WHERE r > 1 GROUP BY u, r, {c}"
        for c in (x, y)
    )
    joined = f"FROM ({xs}) AS p JOIN ({ys}) AS q ON p.u = q.u AND p.k = q.k"
    pairs = f"SELECT p.u AS u, p.r AS r, {d.as_wide('p.n')} * q.n AS n {joined}"
    zero = f"SELECT u, r, 0 AS n FROM {table} WHERE r > 1 GROUP BY u, r"
    same = f"SELECT u, r, -count(*) AS n FROM {table} WHERE r > 1 AND {x} = {y} GROUP BY u, r"
    every = f"{pairs} UNION ALL {same} UNION ALL {zero}"
    return f"SELECT u, r, sum(n) AS a FROM ({every}) AS every_pair GROUP BY u, r"


# --- views


def view_table(rows: CodedTable, view: user_views.View) -> tuple[str, dict[str, str]]:
    """The name of a table with a row per user, and its columns by name."""
    facts: tuple[tuple[str, str, str, tuple[int, ...], tuple[int, ...]], ...]
    if isinstance(view, user_views.UserTable):
        facts = tuple((name, "constant", name, (), ()) for name in view.columns)
    elif isinstance(view, user_views.UserFacts):
        facts = view.facts
    else:
        raise UsageError(f"unknown kind of view: {type(view).__name__}")
    db = rows.database
    made = {view.name: "g"}
    loaded = []
    select = f"SELECT u, r, {group_of('r', view.edges)} AS g FROM {rows.table} GROUP BY u, r"
    try:
        for i, (name, kind, column, numbers, edges) in enumerate(facts):
            if kind in ("sum", "mean"):
                loaded.append(db.load(f"numbers{i}", np.arange(len(numbers)), [np.array(numbers)]))
            fact = _fact(rows, kind, column, numbers, edges, loaded[-1] if loaded else "")
            made[name] = f"f{i}"
            select = f"SELECT p.*, q.f AS f{i} FROM ({select}) AS p JOIN ({fact}) AS q ON p.u = q.u"
        return db.make("view", select), made
    finally:
        for table in loaded:
            db.drop(table)


def _fact(
    rows: CodedTable,
    kind: str,
    column: str,
    numbers: Sequence[int],
    edges: Sequence[int],
    lookup: str,
) -> str:
    """A select (u, f): one fact of each user, as `users.user_facts` says."""
    if kind == "value":
        raise UsageError("engine='sql' does not count features of users; use engine='local'")
    d = rows.dialect
    alias = rows.alias[column]
    size = rows.schema.domain[column]
    whole = d.whole
    if kind == "constant":
        modes = _modes(rows, rows.cell((column,)), rows.table, size)
        return f"SELECT u, k AS f FROM ({modes}) AS modes"
    code = f"CAST({alias} AS {whole})"
    period = d.divided(f"{code} * {numbers[0]}", size) if numbers else ""
    if kind in ("first", "last"):
        end = "min" if kind == "first" else "max"
        return f"SELECT u, {end}({period}) AS f FROM {rows.table} GROUP BY u"
    if kind in ("active", "distinct"):
        counted = period if kind == "active" else alias
        each = f"SELECT u, count(DISTINCT {counted}) AS x FROM {rows.table} GROUP BY u"
        return f"SELECT u, {bin_of('x', edges)} AS f FROM ({each}) AS each_user"
    source = f"{rows.table} AS e JOIN {lookup} AS l ON l.k = e.{alias}"
    each = f"SELECT u, r, {d.wide_sum('l.v0')} AS x FROM {source} GROUP BY u, r"
    if kind == "sum":
        return f"SELECT u, {bin_of('x', edges)} AS f FROM ({each}) AS each_user"

    # floor(x / r) >= edge where x >= edge * r; nothing is divided. No number is beyond MOST_VALUE.
    def reaches(edge: int) -> str:
        if abs(edge) > user_views.MOST_VALUE:
            return "(1 = 0)" if edge > 0 else "(1 = 1)"
        return f"x >= ({edge}) * {d.as_wide('r')}"

    found = search(reaches, list(edges), list(range(len(edges) + 1)))
    return f"SELECT u, {found} AS f FROM ({each}) AS each_user"
