"""Slow, obvious twins of the counting and bounding kernels: plain Python and numpy.add.at."""

import hashlib
import itertools
from collections import Counter, defaultdict

import numpy as np

from tests.reference.sample import GOLDEN, mix


def mix2(key: int, x: int) -> int:
    return mix(mix(key + GOLDEN) ^ (x + 0x632BE59BD9B4E019) % (1 << 64))


PRIME = (1 << 31) - 1


def id_hash(who) -> int:
    """The public hash of an id: of its bytes, or of its digits."""
    raw = who if isinstance(who, bytes) else str(who).encode()
    return int.from_bytes(hashlib.sha256(raw).digest()[:8], "big")


def tie_of_words(hashed: int, words) -> int:
    """The number that breaks ties, as docs/explain/ties.md specifies it."""
    number = (hashed >> 32) % PRIME
    for word in [*words, hashed % (1 << 32)]:
        number = pow(number + word, 5, PRIME)
    return number


def tie(hashed: int, key: int) -> int:
    """The tie number of one key, which is divided into digits of 30 bits."""
    digits = [key % (1 << 30)]
    while key >= 1 << 30:
        key >>= 30
        digits.append(key % (1 << 30))
    return tie_of_words(hashed, digits)


def row_words(codes, sizes, columns, row) -> list[int]:
    """Cells of a row over blocks of columns that have at most 2^30 cells together."""
    words = []
    cells = 1 << 40
    for name in columns:
        code = int(codes[name][row])
        if cells * sizes[name] <= 1 << 30:
            words[-1] = words[-1] * sizes[name] + code
            cells *= sizes[name]
        else:
            words.append(code)
            cells = sizes[name]
    return words


def row_weights(ids, clip: int | None) -> list[int]:
    """Weight of each row in units of 2^-20 rows; clip=None: 1 each."""
    if clip is None:
        return [1] * len(ids)
    rows = Counter(ids)
    return [min(1 << 20, clip * (1 << 20) // rows[u]) for u in ids]


def marginal(domain, codes, clique, weights) -> np.ndarray:
    out = np.zeros([domain[name] for name in clique], np.int64)
    if not clique:
        return out + sum(weights)
    np.add.at(out, tuple(codes[name].astype(np.int64) for name in clique), np.array(weights))
    return out


def by_user(ids, values) -> dict:
    values_of = defaultdict(list)
    for u, value in zip(ids, values, strict=True):
        values_of[u].append(value)
    return values_of


def cells_of(domain, codes, columns) -> list[int]:
    cell = np.zeros(len(codes[columns[0]]), object)
    for name in columns:
        cell = cell * domain[name] + codes[name].astype(object)
    return [int(c) for c in cell]


def most_common(ids, keys, hashes, size: int) -> np.ndarray:
    """keys: one per row, negative: not counted; hashes: public hash by id."""
    out = np.zeros(size, np.int64)
    for u, own_keys in by_user(ids, keys).items():
        count = Counter(k for k in own_keys if k >= 0)
        if count:
            best = min(count, key=lambda k: (-count[k], tie(hashes[u], k), k))
            out[best] += 1
    return out


def groups(ids, keys, hashes, t_max: int, cells: list[int], cap: int) -> np.ndarray:
    out = np.zeros(len(cells), np.int64)
    place = {c: i for i, c in enumerate(cells)}
    for u, own_keys in by_user(ids, keys).items():
        there = {}
        for k, times in Counter(own_keys).items():
            cell = k * t_max + min(times, t_max) - 1
            if cell in place:
                there[k] = place[cell]
        for k in sorted(there, key=lambda k: (tie(hashes[u], k), k))[:cap]:
            out[there[k]] += 1
    return out


def agreement(ids, features, edges) -> np.ndarray:
    """features: the cells of the rows, one list per feature. Pairs are compared one by one."""
    out = np.zeros((len(edges), len(features) + 1), np.int64)
    for rows in by_user(ids, range(len(ids))).values():
        if len(rows) < edges[0]:
            continue
        group = max(g for g, edge in enumerate(edges) if edge <= len(rows))
        pairs = len(rows) * (len(rows) - 1)
        for i, cells in enumerate(features):
            equal = sum(cells[r] == cells[s] for r in rows for s in rows if r != s)
            out[group, i] += 2 * ((1 << 20) * equal // pairs) - (1 << 20)
        out[group, -1] += 1 << 20
    return out.reshape(-1)


def disagreement(ids, columns) -> np.ndarray:
    """columns: the codes of the rows, one list per column."""
    out = np.zeros(len(columns) + 1, np.int64)
    for rows in by_user(ids, range(len(ids))).values():
        if len(rows) > 1:
            out += [*(1 if len({c[r] for r in rows}) > 1 else -1 for c in columns), 1]
    return out


def succession(ids, codes, sizes, hashes, key) -> np.ndarray:
    """What `userkeys.Succession` says, user by user and pair of rows by pair of rows."""
    out = {name: np.zeros(length, np.int64) for name, length in key.lengths.items()}
    for u, rows in by_user(ids, range(len(ids))).items():

        def place(row, u=u):
            words = row_words(codes, sizes, key.domain_columns, row)
            return (
                [int(codes[name][row]) for name in key.order],
                tie_of_words(hashes[u], words),
                words,
            )

        rows = sorted(rows, key=place)
        lead = key.order[0]
        for name, row in (("first", rows[0]), ("last", rows[-1])):
            out[name][int(codes[lead][row]) * key.ends // sizes[lead]] += 1 << 20
        n = len(rows)
        group = sum(edge <= len(rows) for edge in key.edges) - 1
        time = []
        for row in rows:
            at = 0
            for name in key.order:
                at = at * sizes[name] + int(codes[name][row])
            time.append(at)
        bins = Counter(min((b - a).bit_length(), key.gaps - 1) for a, b in itertools.pairwise(time))
        for b, count in bins.items():
            out["gaps"][b] += (count << 20) // (n - 1)
        if group < 0:
            continue
        steps = list(itertools.pairwise(rows))
        out["users"][group] += 1 << 20
        across = 0
        for i, (x, y) in enumerate(key.pairs):
            near = sum(codes[x][r] == codes[y][s] for r, s in steps)
            out["near"][i * len(key.edges) + group] += 2 * ((near << 20) // (n - 1)) - (1 << 20)
            if x != y:
                pairs = sum(codes[x][r] == codes[y][s] for r in rows for s in rows if r != s)
                out["any"][across] += 2 * ((pairs << 20) // (n * (n - 1))) - (1 << 20)
                across += 1
    return np.concatenate(list(out.values()))


def user_table(ids, codes, hashes, columns, edges) -> dict:
    """One row per user: its most common code of each column, and the group of its number of
    rows."""
    out = {name: [] for name in (*columns, "rows per user")}
    for u, rows in by_user(ids, range(len(ids))).items():
        for name in columns:
            count = Counter(int(codes[name][r]) for r in rows)
            out[name].append(min(count, key=lambda k: (-count[k], tie(hashes[u], k), k)))
        out["rows per user"].append(max(g for g, edge in enumerate(edges) if edge <= len(rows)))
    return {name: np.array(column, np.int64) for name, column in out.items()}


def user_facts(ids, codes, sizes, hashes, view) -> dict:
    """One row per user: the facts of `user_views.UserFacts`, from the user's rows one by one."""
    out = {name: [] for name in (view.name, *(fact[0] for fact in view.facts))}
    for u, rows in by_user(ids, range(len(ids))).items():
        out[view.name].append(max(g for g, edge in enumerate(view.edges) if edge <= len(rows)))
        for name, kind, column, numbers, edges in view.facts:
            mine = [int(codes[column][r]) for r in rows]
            count = Counter(mine)
            if kind == "constant":
                out[name].append(min(count, key=lambda k: (-count[k], tie(hashes[u], k), k)))
                continue
            if kind in ("first", "last", "active"):
                periods = [code * numbers[0] // sizes[column] for code in mine]
                found = {"first": min(periods), "last": max(periods), "active": len(set(periods))}
                number = found[kind]
            elif kind == "distinct":
                number = len(count)
            else:
                number = sum(numbers[code] for code in mine)
                number = number // len(mine) if kind == "mean" else number
            binned = number if kind in ("first", "last") else sum(e <= number for e in edges)
            out[name].append(binned)
    return {name: np.array(column, np.int64) for name, column in out.items()}
