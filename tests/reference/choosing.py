"""A slow, obvious twin of csrc/choose.c: every offer by the whole sum, the same random numbers."""

from collections import Counter

from tests.reference.sample import ORDER, Stream, key_of, shuffle

OFFERS = 4
NEIGHBOURHOODS = 256


def choose_part(number, users, target, weight, chosen, sweeps, least, seed):
    """Which of a part's users are chosen. users: of each, what it adds to the cells that it is
    in."""
    stream = Stream(key_of(seed, number, 0, ORDER))
    chosen = list(chosen)
    order = [u for u, one in enumerate(chosen) if one]
    shuffle(order, stream)

    def error(of) -> float:
        count: Counter = Counter()
        for u in of:
            count.update(users[u])
        return sum(w * (count[c] - t) ** 2 for c, (t, w) in enumerate(zip(target, weight)))

    def offers(out: int) -> list[int]:
        near = len(users) // 64 + 2
        low = max(0, out - near)
        high = min(len(users) - 1, out + near)
        anywhere = stream.bits() & 3 == 0
        at = stream.below(len(users)) if anywhere else low + stream.below(high - low + 1)
        places = [(at + i) % len(users) for i in range(4 * OFFERS)]
        known = [u for u in kept.get(neighbourhood(out), []) if not chosen[u]]
        return [*known, *(u for u in places if not chosen[u] and u not in known)][:OFFERS]

    def neighbourhood(out: int) -> int:
        return out * NEIGHBOURHOODS // len(users)

    # The best of each neighbourhood that was not taken; none at first.
    kept: dict[int, list[int]] = {}
    for _ in range(sweeps if 0 < len(order) < len(users) else 0):
        before = error(order)
        for i, out in enumerate(order):
            others = order[:i] + order[i + 1 :]
            cost = {u: error([*others, u]) for u in [out, *offers(out)]}
            best, *rest = sorted(cost, key=lambda u: cost[u])
            kept[neighbourhood(out)] = rest[:1]
            chosen[out] = 0
            chosen[best] = 1
            order[i] = best
        if before - error(order) < least * len(target):
            break
    return chosen


def choose(users, target, weight, chosen, sweeps, least, seed, parts):
    """Which users are chosen; user u is in part u mod parts."""
    chosen, out = list(chosen), list(chosen)
    for number in range(parts):
        own = chosen[number::parts]
        share = sum(own) / sum(chosen)
        goal = [t * share for t in target]
        weights = [w / share for w in weight]
        about = (goal, weights, own, sweeps, least, seed)
        out[number::parts] = choose_part(number, users[number::parts], *about)
    return out
