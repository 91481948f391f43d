"""A slow, obvious twin of csrc/deal.c: lists and loops, the same stream of random numbers."""

from __future__ import annotations

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
TRIES = 8


def mix(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


class Stream:
    def __init__(self, seed: int, chunk: int):
        key = mix(mix((seed + GOLDEN) & MASK) ^ ((chunk + 0xD1B54A32D192ED03) & MASK))
        self.state = mix(key ^ ((2 + 0x8CB92BA72F3D8DD7) & MASK))

    def bits(self) -> int:
        self.state = (self.state + GOLDEN) & MASK
        return mix(self.state)

    def unit(self) -> float:
        return (self.bits() >> 11) * 2.0**-53

    def below(self, n: int) -> int:
        return (self.bits() * n) >> 64


def deal_chunk(number: int, rows: list[tuple], wanted: list[int], alphas: list[list[float]], seed: int):
    """The user (0, 1, ... of the chunk) of each row. rows: their features; alphas: one list per user."""
    stream, features = Stream(seed, number), len(rows[0])
    order = sorted(range(len(rows)), key=lambda r: rows[r])
    free, owner = [True] * len(rows), [-1] * len(rows)

    def pick(first: int, last: int) -> int | None:
        """From a random place on, the next free one; none: the first free one of all."""
        start = first + stream.below(last - first)
        return next((p for p in (*range(start, last), *range(first, start)) if free[p]), None)

    def place_of(mine: list[int], alpha: list[float]) -> int:
        k, copied = len(mine), 0
        if k:
            u = stream.unit()
            while copied < features and u * (k + alpha[copied]) < k:
                copied += 1
        for m in range(copied, 0, -1):
            for _ in range(TRIES):
                like = rows[order[mine[stream.below(k)]]][:m]
                alike = [p for p in range(len(rows)) if rows[order[p]][:m] == like]
                found = pick(alike[0], alike[-1] + 1)
                if found is not None:
                    return found
        found = pick(0, len(rows))
        assert found is not None
        return found

    for user, (many, alpha) in enumerate(zip(wanted, alphas, strict=True)):
        mine: list[int] = []
        for _ in range(many):
            place = place_of(mine, alpha)
            free[place] = False
            mine.append(place)
            owner[order[place]] = user
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
