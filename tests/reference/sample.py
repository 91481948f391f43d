"""The sampler in plain Python, number by number: same streams, same arithmetic, no speed.

Also the law it must follow: the exact joint distribution of a tree by enumeration.
"""

import itertools

import numpy as np

M = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
VALUES = 1
ORDER = 2
OFFSETS = 3
STRATA = 4
TAIL = 5


def mix(z):
    """splitmix64, of which every kernel that deals, samples or probes makes its numbers."""
    z &= M
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M
    return z ^ (z >> 31)


def key_of(seed, shard, node, purpose):
    key = mix(seed + GOLDEN)
    key = mix(key ^ ((shard + 0xD1B54A32D192ED03) & M))
    return mix(key ^ ((node * 8 + purpose + 0x8CB92BA72F3D8DD7) & M))


class Stream:
    def __init__(self, key):
        self.state = key

    def bits(self):
        self.state = (self.state + GOLDEN) & M
        return mix(self.state)

    def unit(self):
        return (self.bits() >> 11) * 2.0**-53

    def below(self, n):
        return (self.bits() * n) >> 64


def at(key, i, n):
    """Number i (from 0) of a stream, uniform below n."""
    return (mix(key + GOLDEN * (i + 1)) * n) >> 64


def shuffle(v, s):
    i = len(v)
    while i > 1024:
        j = s.below(i)
        v[i - 1], v[j] = v[j], v[i - 1]
        i -= 1
    while i > 2:
        bits = s.bits()
        j = ((bits >> 32) * i) >> 32
        k = ((bits & 0xFFFFFFFF) * (i - 1)) >> 32
        v[i - 1], v[j] = v[j], v[i - 1]
        v[i - 2], v[k] = v[k], v[i - 2]
        i -= 2
    if i == 2 and s.bits() >> 63:
        v[0], v[1] = v[1], v[0]


def weights(table, g):
    p = list(map(float, table[g]))
    return p if sum(p) > 0 else list(map(float, table.sum(axis=0)))


def ends(p, n, u):
    """Cell k holds the places ends[k-1] .. ends[k]-1 of n: floor(u + n * cumulative share)."""
    last = max(k for k, w in enumerate(p) if w > 0)
    total = sum(p)
    c = u
    out = []
    for k, w in enumerate(p):
        c += w * (n / total)
        out.append(n if k >= last or c >= n else int(c))
    return out


def runs(ends_):
    out = []
    for k, end in enumerate(ends_):
        out += [k] * (end - len(out))
    return out


def places(n, rows, shard, shard_rows, seed, node):
    """Which of the n quantiles shard number `shard` takes for a node without separator."""
    full, tail = divmod(n, shard_rows)
    strata, tails = (key_of(seed, M, node, kind) for kind in (STRATA, TAIL))

    def tail_place(t):
        low = -(-t * n // tail)
        high = -(-(t + 1) * n // tail)
        return low + at(tails, t, high - low)

    taken = [tail_place(t) for t in range(tail)]
    if shard == full:
        return taken
    free = [q for q in range(n) if q not in set(taken)]
    return [free[t * full + (shard + at(strata, t, full)) % full] for t in range(rows)]


def draw(domain, nodes, n, method, seed, shard, shard_rows):
    """One shard. `seed` is the 64-bit key; nodes are (sep, res, table)."""
    rows = min(shard_rows, n - shard * shard_rows)
    columns: dict[str, list[int]] = {}
    by_sep: dict[tuple, list] = {}
    for number, (sep, res, table) in enumerate(nodes):
        by_sep.setdefault(tuple(sep), []).append((number, sep, res, table))
    first = True
    for number, sep, res, table in itertools.chain(*by_sep.values()):
        s = Stream(key_of(seed, shard, number, VALUES))
        value = [0] * rows
        if not sep:
            p = weights(table, 0)
            if method == "round":
                offsets = Stream(key_of(seed, M, number, OFFSETS))
                u = offsets.unit()
                turn = offsets.below(n)
                cell = runs(ends(p, n, u))
                value = sorted(
                    cell[(q + turn) % n] for q in places(n, rows, shard, shard_rows, seed, number)
                )
                if not first:
                    shuffle(value, s)
            else:
                value = [search(p, s) for _ in range(rows)]
                if first:
                    value.sort()
        else:
            key = [0] * rows
            for name in sep:
                key = [k * domain[name] + c for k, c in zip(key, columns[name], strict=True)]
            for g in range(table.shape[0]):
                members = [i for i in range(rows) if key[i] == g]
                if not members:
                    continue
                p = weights(table, g)
                if method == "round":
                    drawn = runs(ends(p, len(members), s.unit()))
                    shuffle(drawn, s)
                else:
                    drawn = [search(p, s) for _ in members]
                for i, v in zip(members, drawn, strict=True):
                    value[i] = v
        first = False
        codes = np.unravel_index(np.array(value, int), [domain[a] for a in res])
        for name, column in zip(res, codes, strict=True):
            columns[name] = column.tolist()
    order = list(range(rows))
    shuffle(order, Stream(key_of(seed, shard, 0, ORDER)))
    return {name: [column[i] for i in order] for name, column in columns.items()}


def search(p, s):
    cum = list(itertools.accumulate(p))
    x = s.unit() * cum[-1]
    above = [k for k, c in enumerate(cum) if c > x]
    return above[0] if above else max(k for k, w in enumerate(p) if w > 0)


def joint(domain, nodes):
    """The tree's joint probabilities over all attributes, in the order the nodes bring them."""
    names = [a for _, res, _ in nodes for a in res]
    operands = []
    for sep, res, table in nodes:
        rows = np.array([weights(table, g) for g in range(table.shape[0])])
        shares = rows / rows.sum(axis=1, keepdims=True)
        axes = [*sep, *res]
        operands += [shares.reshape([domain[a] for a in axes]), [names.index(a) for a in axes]]
    return np.einsum(*operands, list(range(len(names))))
