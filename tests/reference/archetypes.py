"""Slow, obvious twins of what archetypes compute."""

from collections import Counter


def draw(start, counts, values, group, uniform):
    """One value per group asked for: walk along the counts until the target is used up."""
    out = []
    for g, u in zip(group, uniform):
        entries = range(start[g], start[g + 1])
        total = sum(int(counts[e]) for e in entries)
        target = min(int(u * total), total - 1)
        for e in entries:
            target -= int(counts[e])
            if target < 0:
                out.append(int(values[e]))
                break
    return out


def conditional(rows, levels, target):
    """[{condition: Counter of targets}] by level, from rows given as mappings."""
    return [
        {
            key: Counter(r[target] for r in rows if tuple(r[c] for c in level) == key)
            for key in {tuple(r[c] for c in level) for r in rows}
        }
        for level in levels
    ]


def most_common(users, values):
    """{user: set of its most common values}."""
    out = {}
    for u in set(users):
        seen = Counter(v for w, v in zip(users, values) if w == u)
        out[u] = {v for v, n in seen.items() if n == max(seen.values())}
    return out
