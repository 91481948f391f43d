"""The obvious twin of `release.cells`: exact fractions, loops over all cells, no searches."""

import math
from fractions import Fraction

from fastdp.privacy.clip import nonnegative

SECONDS = [1, 5, 15, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600]


def exact(value):
    """A float as the shortest decimal number that reads as it."""
    return Fraction(repr(float(value)))


def round_up(width):
    """The smallest of 1, 2, 5 times a power of ten from `width` on (less 1e-12 of it)."""
    near = math.floor(math.log10(width))
    steps = [m * Fraction(10) ** d for d in range(near - 1, near + 3) for m in (1, 2, 5)]
    return float(min(s for s in steps if float(s) >= width * (1 - 1e-12)))


def step(line, width):
    width = max(width, line.unit or 1e-300)
    if not line.dtype.startswith("timestamp"):
        return round_up(width)
    if width <= 43_200:
        return float(min(s for s in SECONDS if s >= width))
    return 86_400.0 * math.ceil(round_up(width / 86_400))


def multiples(low, high, size):
    """In [low, high)."""
    out, k = [], math.floor(exact(low) / exact(size)) - 1
    while k * exact(size) < exact(high):
        if k * exact(size) >= exact(low):
            out.append(float(k * exact(size)))
        k += 1
    return out


def near(line, low, high, share):
    """The round value of a cell, or end of it, that is nearest to `share` of the way through."""
    if line.after(low) >= high:
        return low if share < 0.5 else high
    ends = sorted({low, high, *multiples(low, high, step(line, (high - low) / 32))})
    return min(ends, key=lambda v: abs(v - low - share * (high - low)))


def digits(counts, sigma):
    for n in range(len(counts) - 1):
        more = [float(c) for c in counts[n + 1 :]]
        noise, rows = 3 * sigma * math.sqrt(len(more)), math.fsum(counts)
        if noise < rows / 5 and math.fsum(more) < max(noise, rows / 100):
            return n
    return None


def bar(cells):
    return math.sqrt(2 * math.log(20 * max(cells, 2)))


def alive(counts, sigma):
    """Cells of the aligned runs of 2^k cells that stand out of their noise and hold no smaller such run."""
    n, out, high = len(counts), set(), []
    for k in range(n.bit_length() + 1):
        for start in range(0, n, 2**k):
            run = range(start, start + 2**k)
            if math.fsum(counts[start : start + 2**k]) > bar(n) * sigma * math.sqrt(2**k):
                if not any(set(smaller) < set(run) for smaller in high):
                    out |= set(run) & set(range(n))
                high.append(run)
    return sorted(out)


def extent(edges, counts, sigma, bins, span):
    """(first, last) cell that may hold rows; None where there is none."""
    finite = [i for i in range(len(counts)) if math.isfinite(edges[i]) and math.isfinite(edges[i + 1])]
    if span is None:
        cells = alive(counts, sigma)
        return (max(cells[0] - 2, finite[0]), min(cells[-1] + 2, finite[-1])) if cells else None
    first, last = list(edges).index(span[0]), list(edges).index(span[1]) - 1
    few = 0.1 * float(counts[first : last + 1].sum()) / bins

    def empty(cells):
        """How many cells may go; none where all may."""
        total = 0.0
        for gone, i in enumerate(cells):
            total += float(counts[i])
            if total > few + sigma * math.sqrt(gone + 1):
                return gone
        return 0

    inside = range(first, last + 1)
    low, high = first + empty(inside), last - empty(inside[::-1])
    return (low, high) if low <= high else (first, last)


def split(line, low, high, parts):
    if not (math.isfinite(low) and math.isfinite(high)) or line.after(low) >= high:
        return set()
    values = multiples(low, high, step(line, (high - low) / max(parts, 1.0)))
    return {c for v in values for c in (v, line.after(v)) if low < c < high}


def refine(line, edges, counts, sigma, cells, bins, span):
    ends = extent(edges, counts, sigma, bins, span)
    if ends is None:
        return list(edges), None
    first, last = ends
    sure = [c if c >= sigma * bar(len(counts)) else 0.0 for c in counts]
    total = max(math.fsum(sure[first : last + 1]), 1.0)
    cuts = {edges[0], edges[first], edges[last + 1], edges[-1]}
    for i in range(first, last + 1):
        if span is not None or any(s for j, s in enumerate(sure) if abs(i - j) <= 2):
            cuts |= {edges[i], edges[i + 1]}
        parts = max(cells * sure[i] / total, 4.0 if i in ends else 0.0)
        if parts >= 2:
            cuts |= split(line, float(edges[i]), float(edges[i + 1]), parts)
    return sorted(cuts), (edges[first], edges[last + 1])


def dealt(count, masses):
    """Bins of each run: one each, the rest in proportion, largest remainders first."""
    rest, total = count - len(masses), math.fsum(masses) or 1.0
    whole = [math.floor(rest * m / total) for m in masses]
    order = sorted(range(len(masses)), key=lambda i: (whole[i] - rest * masses[i] / total, i))
    more = order[: max(0, rest - sum(whole))]
    return [1 + w + (i in more) for i, w in enumerate(whole)]


def runs(atoms, cells):
    """Longest runs of cells that are no atoms."""
    out = []
    for i in range(cells):
        if i in atoms:
            continue
        if out and out[-1][-1] == i - 1:
            out[-1].append(i)
        else:
            out.append([i])
    return out


def bins(line, edges, counts, sigma, number, span):
    """Edges of at most `number` bins of a line with a unit."""
    ends = extent(edges, counts, sigma, number, span)
    if ends is None:
        finite = [float(e) for e in edges if math.isfinite(e)]
        if len(finite) == len(edges):
            return [finite[0], finite[-1]]
        zero = min(max(0.0, finite[0]), finite[-1])
        return [zero, line.after(zero)]
    first, last = ends
    cells, mass = [float(e) for e in edges[first : last + 2]], nonnegative(counts[first : last + 1].tolist())
    if (cells[-1] - cells[0]) / line.unit <= number:
        return [*multiples(cells[0], cells[-1], line.unit), cells[-1]]
    atoms = set()
    for i in sorted(range(len(mass)), key=lambda i: (-mass[i], i)):
        large = mass[i] >= max(3 * sigma, math.fsum(mass) / number)
        if large and line.after(cells[i]) == cells[i + 1]:
            if len(atoms) + 1 + len(runs({*atoms, i}, len(mass))) <= number:
                atoms.add(i)
    cuts = {cells[0], cells[-1], *(cells[i] for i in atoms), *(cells[i + 1] for i in atoms)}
    gaps = runs(atoms, len(mass))
    for run, count in zip(gaps, dealt(number - len(atoms), [math.fsum(mass[i] for i in r) for r in gaps])):
        below = [math.fsum(mass[run[0] : run[0] + k]) for k in range(len(run) + 1)]
        for k in range(1, count):
            wanted = below[-1] * k / count
            at = min(max(j for j in range(len(below)) if below[j] <= wanted), len(run) - 1)
            inside = mass[run[at]]
            share = (wanted - below[at]) / inside if inside > 0 else 0.0
            cuts.add(near(line, cells[run[at]], cells[run[at] + 1], share))
    return sorted(cuts)
