"""A slow, obvious twin of csrc/deal.c: lists and loops, the same stream of random numbers."""

from itertools import combinations

from tests.reference.sample import ORDER, Stream, key_of, mix

FRESH = 20.0
PAIRED = 5
MISSED = 4
TRIES = 4


class Lists:
    """The rows by the value of `value(row)`. Used ones stay until they are the larger part."""

    def __init__(self, rows, value, used: list[bool]):
        self.value = value
        self.of = {}
        self.used = used
        for i, row in enumerate(rows):
            self.of.setdefault(value(row), []).append(i)

    def unused(self, value) -> list[int]:
        return [i for i in self.of.get(value, []) if not self.used[i]]

    def rows(self, value) -> list[int]:
        unused = self.unused(value)
        if 2 * len(self.of[value]) > 3 * len(unused):
            self.of[value] = unused
        return self.of[value]

    def any(self, value, stream: Stream) -> int:
        rows = self.rows(value)
        row = rows[stream.below(len(rows))]
        while self.used[row]:
            row = rows[stream.below(len(rows))]
        return row

    def some(self, value, stream: Stream, count: int) -> list[int]:
        """So many unused rows from a random place on, or all where there are no more."""
        rows = self.rows(value)
        at = stream.below(len(rows))
        return [row for row in rows[at:] + rows[:at] if not self.used[row]][:count]


def numbered(rows: list[tuple]) -> list[tuple]:
    """The same rows, where values of each feature have numbers: 0 for the first, 1 for the next new one."""
    numbers: list[dict] = [{} for _ in rows[0]]
    return [tuple(of.setdefault(x, len(of)) for x, of in zip(row, numbers)) for row in rows]


def pair_of(f: int, g: int, sizes: list[int], rows: int):
    """The value of a pair: where there are many combinations, several share one."""
    room = min(sizes[f] * sizes[g], 2 * rows + 1)

    def value(row):
        if sizes[f] * sizes[g] <= room:
            return row[f] * sizes[g] + row[g]
        return mix(row[f] << 32 | row[g]) * room >> 64

    return value


def deal_chunk(
    number, rows: list[tuple], wanted: list[int], alphas: list[list[float]], candidates, seed
):
    """The user (0, 1, ... of the chunk) of each row. rows: their features; alphas: one list per user."""
    rows = numbered(rows)
    sizes = [max(of) + 1 for of in zip(*rows)]
    stream = Stream(key_of(seed, number, 0, ORDER))
    features = len(rows[0])
    owner = [-1] * len(rows)
    used = [False] * len(rows)
    single = [Lists(rows, lambda row, f=f: row[f], used) for f in range(features)]
    pairs = {
        (f, g): Lists(rows, pair_of(f, g, sizes, len(rows)), used)
        for f, g in combinations(range(min(features, PAIRED)), 2)
    }
    every = Lists(rows, lambda row: 0, used)

    def shortest(wants: list, lead: int | None = None) -> tuple[Lists, int]:
        both = [
            (made, made.value(wants))
            for (f, g), made in reversed(pairs.items())
            if wants[f] is not None and wants[g] is not None and lead in (None, f, g)
        ]
        one = [
            (single[f], wants[f])
            for f in reversed(range(features))
            if wants[f] is not None and lead in (None, f)
        ]
        of_two, of_one = ([(x, v) for x, v in lists if x.unused(v)] for lists in (both, one))
        if lead is not None:
            of_one = [] if of_two else of_one
        return min((*of_two, *of_one), key=lambda at: len(at[0].unused(at[1])), default=(every, 0))

    def apart(row: int, wants: list, mine: list[int], alpha: list[float]) -> int:
        cost = 0
        for f in range(features):
            if alpha[f] < 0:
                part = 1.0
                for _ in [r for r in mine if rows[r][f] == rows[row][f]]:
                    part *= -alpha[f] if part > 1e-9 else 1.0
                cost += 2 * MISSED if part < 1 and stream.unit() >= part else 0
            elif wants[f] is not None and wants[f] != rows[row][f]:
                cost += MISSED
        return cost

    def next_row(mine: list[int], alpha: list[float]) -> int:
        k = len(mine)
        best = -1
        least = 1 << 32
        again = [
            f
            for f in range(features)
            if mine
            and alpha[f] > 0
            and stream.unit() * ((FRESH + alpha[f]) * (k + alpha[f])) < FRESH * k
        ]
        if not again and not (mine and min(alpha) < 0):
            return every.any(0, stream)
        for _ in range(min(k + 1, TRIES)):
            like = rows[mine[stream.below(k)]] if mine else ()
            wants = [like[f] if f in again else None for f in range(features)]
            lead = again[stream.below(len(again))] if again else None
            lists = shortest(wants), shortest(wants, lead)
            for (made, value), looks in zip(lists, (candidates // 2, candidates - candidates // 2)):
                for row in made.some(value, stream, looks):
                    if least == 0:
                        break
                    cost = apart(row, wants, mine, alpha)
                    if cost < least:
                        best, least = row, cost
            if least < MISSED:
                break
        return best

    for user, (many, alpha) in enumerate(zip(wanted, alphas, strict=True)):
        mine: list[int] = []
        for _ in range(many):
            row = next_row(mine, alpha)
            used[row] = True
            mine.append(row)
            owner[row] = user
    return owner


def agreement(rows: list[tuple], owner: list[int], feature: int) -> dict[int, int]:
    """floor(2^20 share of agreeing pairs) of each user with two rows or more, pair by pair."""
    out = {}
    for user in set(owner):
        own = [row[feature] for row, who in zip(rows, owner, strict=True) if who == user]
        if len(own) > 1:
            equal = sum(a == b for i, a in enumerate(own) for j, b in enumerate(own) if i != j)
            out[user] = (equal << 20) // (len(own) * (len(own) - 1))
    return out
