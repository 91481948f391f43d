"""A slow, obvious twin of csrc/deal.c: lists and loops, the same stream of random numbers."""

from tests.reference.sample import ORDER, Stream, key_of

FRESH, TRIES = 20.0, 6


def deal_chunk(
    number, rows: list[tuple], wanted: list[int], alphas: list[list[float]], candidates, seed
):
    """The user (0, 1, ... of the chunk) of each row. rows: their features; alphas: one list per
    user."""
    stream, features = Stream(key_of(seed, number, 0, ORDER)), len(rows[0])
    owner = [-1] * len(rows)

    def pick(among: list[int]) -> int:
        """From a random place on, the next unused row; none: the first unused one of all."""
        start = stream.below(len(among))
        return next(r for r in (*among[start:], *among[:start]) if owner[r] < 0)

    def liking(row: int, mine: list[int], alpha: list[float]) -> float:
        unused = [r for r in range(len(rows)) if owner[r] < 0]
        urns, proposed, k = 1.0, float(len(mine)), len(mine)
        for f in range(features):
            has = sum(rows[r][f] == rows[row][f] for r in mine)
            if alpha[f] < 0:
                proposed += k
                continue
            t = float(has) * len(unused) / sum(rows[r][f] == rows[row][f] for r in unused)
            urns *= (FRESH * (t + alpha[f]) / (k + alpha[f]) + alpha[f]) / (FRESH + alpha[f])
            proposed += t
        return urns / proposed

    def propose(among: list[int], mine: list[int], alpha: list[float]) -> tuple[int, float]:
        for i in range(TRIES):
            row, part = pick(among), 1.0
            for f in range(features):
                has = sum(rows[r][f] == rows[row][f] for r in mine) if alpha[f] < 0 else 0
                for _ in range(has):
                    part *= -alpha[f] if part > 1e-9 else 1.0
            if i == TRIES - 1 or part >= 1 or stream.unit() < part:
                break
        return row, part

    def next_row(mine: list[int], alpha: list[float]) -> int:
        chosen, part = propose(list(range(len(rows))), mine, alpha)
        if not mine:
            return chosen
        total = part * liking(chosen, mine, alpha)
        for _ in range(1, candidates):
            f = stream.below(features + 1)
            alike = list(range(len(rows)))
            if f < features and alpha[f] >= 0:
                value = rows[mine[stream.below(len(mine))]][f]
                alike = [r for r in alike if rows[r][f] == value]
                if all(owner[r] >= 0 for r in alike):
                    continue
            row, part = propose(alike, mine, alpha)
            weight = part * liking(row, mine, alpha)
            total += weight
            if stream.unit() * total < weight:
                chosen = row
        return chosen

    for user, (many, alpha) in enumerate(zip(wanted, alphas, strict=True)):
        mine: list[int] = []
        for _ in range(many):
            mine.append(next_row(mine, alpha))
            owner[mine[-1]] = user
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
