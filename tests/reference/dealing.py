"""A slow, obvious twin of csrc/deal.c: lists and loops, the same stream of random numbers."""

from itertools import combinations

from tests.reference.sample import ORDER, Stream, key_of, mix

FRESH = 20.0
PAIRED = 5
MISSED = 4
TRIES = 4


class Lists:
    """The unused rows by the value of `value(row)`. What is taken out leaves its place to the last."""

    def __init__(self, rows, value):
        self.value = value
        self.of = {}
        for i, row in enumerate(rows):
            self.of.setdefault(value(row), []).append(i)

    def take(self, row, i: int) -> None:
        rows = self.of[self.value(row)]
        at = rows.index(i)
        rows[at] = rows[-1]
        rows.pop()


def pair_of(f: int, g: int, sizes: list[int], rows: int):
    """The value of a pair: rare combinations share one."""
    room = min(sizes[f] * sizes[g], 2 * rows + 1)

    def value(row):
        cell = row[f] * sizes[g] + row[g]
        return cell if cell < room else mix(cell) % room

    return value


def deal_chunk(
    number, rows: list[tuple], wanted: list[int], alphas: list[list[float]], candidates, seed, sizes
):
    """The user (0, 1, ... of the chunk) of each row. rows: their features, of so many values
    (`sizes`); alphas: one list per user."""
    stream = Stream(key_of(seed, number, 0, ORDER))
    features = len(rows[0])
    owner = [-1] * len(rows)
    single = [Lists(rows, lambda row, f=f: row[f]) for f in range(features)]
    pairs = {
        (f, g): Lists(rows, pair_of(f, g, sizes, len(rows)))
        for f, g in combinations(range(min(features, PAIRED)), 2)
    }
    every = Lists(rows, lambda row: 0)

    def shortest(wants: list, lead: int | None = None) -> list[int]:
        both = [
            made.of.get(made.value(wants), [])
            for (f, g), made in reversed(pairs.items())
            if wants[f] is not None and wants[g] is not None and lead in (None, f, g)
        ]
        one = [
            single[f].of.get(wants[f], [])
            for f in reversed(range(features))
            if wants[f] is not None and lead in (None, f)
        ]
        of_two, of_one = ([x for x in lists if x] for lists in (both, one))
        if lead is not None:
            of_one = [] if of_two else of_one
        return min((*of_two, *of_one), key=len, default=every.of[0])

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
            bool(mine)
            and alpha[f] > 0
            and stream.unit() < FRESH / (FRESH + alpha[f]) * k / (k + alpha[f])
            for f in range(features)
        ]
        count = sum(again) + sum(a < 0 for a in alpha) * bool(mine)
        for _ in range(min(k + 1, TRIES)):
            like = rows[mine[stream.below(k)]] if mine else ()
            wants = [like[f] if again[f] else None for f in range(features)]
            lead = None
            seen = 0
            for f in range(features):
                if again[f]:
                    seen += 1
                    lead = f if stream.below(seen) == 0 else lead
            lists = shortest(wants, lead), shortest(wants)
            for i in range(candidates):
                row = lists[i % 2][stream.below(len(lists[i % 2]))]
                if not count:
                    return row
                cost = apart(row, wants, mine, alpha)
                if cost < least:
                    best = row
                    least = cost
                if least == 0:
                    break
            if least < MISSED:
                break
        return best

    for user, (many, alpha) in enumerate(zip(wanted, alphas, strict=True)):
        mine: list[int] = []
        for _ in range(many):
            row = next_row(mine, alpha)
            for lists in (*single, *pairs.values(), every):
                lists.take(rows[row], row)
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
