"""Chooses what to measure next, from a screening round: noisy distances of every candidate from the
model.

Quantities are in rows. Measuring a candidate at noise sigma removes its L1 distance d from the
model. It adds the error of the noise, NOISE * sigma * cells. Here cells are *effective* cells:
those that noise can affect. With weights w the whole batch is worth

    sum of w d  -  NOISE * sum of w cells sigma,      sum of 1 / sigma^2 = precision,

at best (Lagrange) with 1 / sigma_k^2 in proportion to y_k = (NOISE w_k cells_k)^(2/3), where the
second sum is (sum of y)^(3/2) / sqrt(precision).

*What an answer finds.* A cell that is off by less than the noise is left by a fit where the model has
it: the answer does not find what is wrong there. So d is what measuring removes at most. That decides
between two resolutions (`findings`): with few rows a cell most of d is hidden, and groups find more. And
a pair is not asked for if all that its answer finds is expected to be less than noise (`tells`).
Everything here is a function of released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ..._core.treesize import Graph
from ..._util.disjoint import DisjointSets
from ...division import portion
from ...domain import Clique, Domain
from ...significance import SURE, threshold
from .code_partitions import CODES, Key, Partition
from .one_ways import NOISE, effective_cells

Follows = Callable[[str, str], float]


class Candidate(Struct, frozen=True):
    """A marginal that may be measured. `distance`: noisy, from the model or from its public prior.
    `cells`: those that noise can affect. `explained`: the distance that a public prior accounts for
    at no cost. `use_prior_only`: that prior is better than an answer would be, so only what it
    leaves can be gained. `partition`: what it is measured over; `distance` and `cells` are then
    those between its groups. `within`: the model's distance inside the groups, which stays."""

    clique: Clique
    distance: float
    cells: float
    weight: float = 1.0
    explained: float = 0.0
    use_prior_only: bool = False
    partition: Partition = CODES
    within: float = 0.0

    @property
    def key(self) -> Key:
        """What is measured: the clique, and over which groups."""
        return self.clique, self.partition

    @property
    def removed(self) -> float:
        """The distance that an answer removes."""
        return self.distance + (0.0 if self.use_prior_only else self.explained)

    def gain(self, sigma: float) -> float:
        """What measuring it at this noise is worth: what it takes off the distance over all codes.

        An answer replaces the deviations between groups by those of noise. Deviations inside groups
        stay; they are about independent of both, so squares add up. Over all codes there are none,
        and the gain is the distance less the noise."""
        if not self.within:
            return self.weight * (self.removed - self.noise(sigma))
        before, after = (math.hypot(x, self.within) for x in (self.removed, self.noise(sigma)))
        return self.weight * (before - after)

    def noise(self, sigma: float) -> float:
        """The error that noise of this size causes between groups."""
        return NOISE * sigma * self.cells

    def worth(self, sigma: float) -> float:
        """What having it is worth: explained by public data, or measured."""
        return max(self.weight * self.explained, self.gain(sigma))

    @property
    def portion(self) -> float:
        """y of the module's text."""
        return portion(NOISE * self.weight * self.cells)


class ScreeningResult(Struct, frozen=True):
    """A screening round: its candidates, the model's marginals of them, their noisy distances with
    standard errors, and their weights."""

    cliques: list[Clique]
    estimates: Mapping[Clique, np.ndarray]
    distances: list[float]
    sigma: list[float]
    weights: list[float]
    grouped: Mapping[Clique, float] = field(default_factory=dict)

    @property
    def noise(self) -> float:
        """The standard deviation of weight times distance, the same for all candidates."""
        return self.sigma[0] * self.weights[0] if self.sigma else 0.0

    def over(self, estimates: Mapping[Clique, np.ndarray]) -> ScreeningResult:
        """The same result with marginals over other codes. Candidates without one are left out. So are
        marginals of what was no candidate: a column of one code then may have more now."""
        kept = [i for i, clique in enumerate(self.cliques) if clique in estimates]
        distances, sigma, weights = (
            [v[i] for i in kept] for v in (self.distances, self.sigma, self.weights)
        )
        tables = {self.cliques[i]: estimates[self.cliques[i]] for i in kept}
        return ScreeningResult(list(tables), tables, distances, sigma, weights, self.grouped)


def candidates(
    cliques: Sequence[Clique],
    estimates: Mapping[Clique, np.ndarray],
    distances: Sequence[float],
    sigma: float,
    total: float,
    weight: Mapping[Clique, float],
) -> list[Candidate]:
    """The cliques as candidates, for noise of about `sigma`. Their effective cells are those that
    the model expects to be filled, times 1 - distance / (2 total): the share of rows that truth and
    model have in common. They are at least those that the sums over its axes call for."""
    out = []
    for clique, distance in zip(cliques, distances, strict=True):
        common = min(1.0, max(0.0, 1 - distance / max(2 * total, 1e-9)))
        cells = max(
            least_cells(estimates[clique], sigma),
            common * effective_cells(estimates[clique], sigma),
        )
        out.append(Candidate(clique, float(distance), cells, weight[clique]))
    return out


def least_cells(estimate: np.ndarray, sigma: float) -> float:
    """Effective cells that any table with the estimate's sums over each axis has, at least 1. Where
    a column follows from another, the pair has as many as the larger of them."""
    axes = range(estimate.ndim)
    if estimate.ndim > 1:
        sums = [estimate.sum(axis=tuple(j for j in axes if j != i)) for i in axes]
    else:
        sums = []
    return max([1.0, *(effective_cells(one, sigma) for one in sums)])


class Structure:
    """The model's graph while it grows: the marginals in it, and the number of cells of its
    junction tree."""

    def __init__(self, domain: Domain, cliques: Iterable[Clique] = ()):
        self._number = {name: i for i, name in enumerate(domain)}
        self._graph = Graph(list(domain.values()))
        for clique in cliques:
            self.add(clique)

    def add(self, clique: Clique) -> None:
        self._graph.add([self._number[a] for a in clique])

    def cells(self, clique: Clique = ()) -> int:
        """Cells of the junction tree if this clique were added."""
        return self._graph.cells([self._number[a] for a in clique])

    def joined(self, clique: Clique) -> bool:
        """Whether the clique's columns are joined with each other already, so that adding it
        changes nothing."""
        return self._graph.joined([self._number[a] for a in clique])

    def fits(self, most: int, clique: Clique) -> bool:
        """Whether the junction tree has at most `most` cells if this clique is added."""
        return self._graph.fits(most, [self._number[a] for a in clique])


def forest(ordered: Iterable[Candidate], domain: Domain) -> list[Candidate]:
    """Kruskal's algorithm: of pairs in this order those that join two trees."""
    joined = DisjointSets(domain)
    return [c for c in ordered if joined.merge(*c.clique)]


def accounted(
    distances: Mapping[Clique, float],
    sigma: Mapping[Clique, float],
    noise_tv: Mapping[str, float],
    total: float,
) -> float:
    """The part of the columns that pairs account for, at most 1.

    Let d be a pair's noisy distance from independence. The part is twice the mean of d / (2 total)
    over the edges of a spanning tree of pairs, the tree for which it is largest. Twice, since a pair
    says something about both its columns.

    An edge counts only if d stands out of two noises. `noise_tv` is the total variation that noise
    causes in each 1-way; it puts the model of independent columns off as far. `sigma` is the noise of
    the round; it raises the largest distance by as many standard deviations as `threshold` says. The
    part is 1 if columns follow from each other, so that a pair says what its 1-ways say,
    and 0 if they are independent.

    Where all columns depend on each other, as by hidden factors, no pair need stand out. The mean over
    all K pairs has 1 / sqrt(K) of the noise: where it stands out, the part is at least twice that mean."""
    if not distances:
        return 0.0
    above = threshold(len(distances))
    parts = {}
    for (a, b), distance in distances.items():
        part = min(1.0, distance / max(2 * total, 1e-9))
        if part > noise_tv[a] + noise_tv[b] + above * sigma[a, b] / max(2 * total, 1e-9):
            parts[a, b] = part
    columns = {a for pair in distances for a in pair}
    joined = DisjointSets(columns)
    tree = [parts[p] for p in sorted(parts, key=lambda p: -parts[p]) if joined.merge(*p)]
    part = 2 * math.fsum(tree) / max(1, len(columns) - 1)
    count = len(distances)
    mean = math.fsum(distances.values()) / count / max(2 * total, 1e-9)
    hidden = math.fsum(noise_tv[a] + noise_tv[b] for a, b in distances) / count
    error = math.hypot(*sigma.values()) / count / max(2 * total, 1e-9)
    if mean > hidden + SURE * error:
        part = max(part, 2 * mean)
    return min(1.0, part)


def deviations(distance: float, table: np.ndarray, total: float) -> tuple[np.ndarray, float]:
    """(how far each cell of the model's `table` is off on average, by a distance; the part of all rows
    that is apart beyond chance).

    Chance alone puts counts off by NOISE sqrt(e) in a cell of e rows. What is beyond that leaves the
    columns as they are. So it is spread as the standard deviations of their codes are: in a table of two
    by two, all four cells are off by the same."""
    rows = np.maximum(np.asarray(table, np.float64), 1e-12)
    whole = float(rows.sum())
    spread = np.ones(())
    for axis in range(rows.ndim):
        part = rows.sum(axis=tuple(i for i in range(rows.ndim) if i != axis)) / whole
        spread = np.multiply.outer(spread, np.sqrt(part * (1 - part)))
    chance = np.minimum(NOISE * np.sqrt(rows), 2 * rows)
    by_chance = float(chance.sum())
    apart = min(1.0, max(0.0, distance - by_chance) / max(2 * total, 1e-9))
    off = 2 * apart * total * spread / max(float(spread.sum()), 1e-300)
    return off + chance * min(1.0, max(0.0, distance) / by_chance), apart


def findings(c: Candidate, table: np.ndarray, sigma: float, total: float) -> float:
    """What an answer with noise `sigma` takes off the distance over all codes, by the better of two ways
    to use it.

    *Cell by cell.* Noise hides deviations that it exceeds. It counts for the part of the rows that
    truth and model have in common. Let only the sum of n sizes be known (Dirichlet, all sizes equally
    likely). Those above t times their mean then hold (1 - t / n)^(n - 1) (1 + (n - 1) t / n) of it. That is
    all or nothing of a single one, and (1 + t) exp(-t) of many. The rest is left, and the noise.

    *By a factor.* Deviations of standard deviation s are best drawn to the model by the factor s^2 /
    (s^2 + sigma^2). What is left is sigma / sqrt(s^2 + sigma^2) of them."""
    off, apart = deviations(c.distance, table, total)
    free = max(1, math.prod(n - 1 for n in table.shape))
    above = np.minimum((1 - apart) * NOISE * sigma / np.maximum(off, 1e-300) / free, 1.0)
    held = (1 - above) ** (free - 1) * (1 + (free - 1) * above)
    if free == 1:
        held = np.where(above < 1, 1.0, 0.0)
    hidden = max(0.0, c.distance - float(np.sum(off * held)))
    by_cell = math.hypot(c.distance, c.within) - math.hypot(c.noise(sigma) + hidden, c.within)
    left = float(np.sum(off * sigma / np.sqrt(sigma**2 + np.square(off / NOISE))))
    by_factor = math.hypot(float(off.sum()), c.within) - math.hypot(left, c.within)
    return c.weight * max(by_cell, by_factor)


def tells(c: Candidate, table: np.ndarray, sigma: float, total: float) -> bool:
    """Whether an answer about a pair with this noise is expected to say more than its columns do.

    Finished answers are asked the same: is the mean square of the deviations as large as what using the
    answer costs (`least_square`)? Deviations of which only the mean is known are exponential, so their mean
    square is twice the square of the mean."""
    if len(c.clique) != 2 or c.explained:
        return True
    off, _ = deviations(c.distance, table, total)
    free = math.prod(n - 1 for n in table.shape)
    return 2 * float(np.square(off).sum()) >= least_square(free, table, sigma) * sigma**2


def least_square(free: int, table: np.ndarray, sigma: float) -> float:
    """The least squared length of what a pair's answer says beyond its columns, in units of its noise,
    that is worth using: see `cliquetree.beyond_independence`. Of `free` numbers, cells count as far as
    noise can affect them: the fit leaves cells empty that are expected to be."""
    affected = min(free, max(1.0, effective_cells(table, sigma)))
    return min(affected, 1 + math.sqrt(1 + 2 * affected))


def worthwhile(scored: Iterable[Candidate], sigma: float, left: float) -> list[Candidate]:
    """Candidates that gain more than they cost at this noise, or are explained by public data. Those
    worth most at the noise that is `left` after the last batch come first."""
    kept = [(c.worth(left), c) for c in scored if c.gain(sigma) > 0 or c.explained > 0]
    return [c for _, c in sorted(kept, key=lambda pair: -pair[0])]


def following(estimates: Mapping[Clique, np.ndarray]) -> Follows:
    """How far column a follows from column x in the model, by their marginal: 0 if they are
    independent, 1 where x determines a."""

    @cache
    def follows(a: str, x: str) -> float:
        if a == x:
            return 1.0
        if (a, x) not in estimates and (x, a) not in estimates:
            return 0.0
        table = estimates[a, x] if (a, x) in estimates else estimates[x, a].T
        shares = table / max(float(table.sum()), 1e-9)
        ones = shares.sum(axis=1)
        gap = np.abs(shares - np.multiply.outer(ones, shares.sum(axis=0))).sum() / 2
        return min(1.0, float(gap / max(1e-9, 1 - np.square(ones).sum())))

    return follows


def unexplained(
    good: Iterable[Candidate], follows: Follows, sigma: float, cheap: float = 0.0
) -> list[Candidate]:
    """Those of the candidates, in this order, that gain more than they cost also if those before
    them are measured. Where a follows from x and b from y, an answer about (x, y) removes what is
    wrong about (a, b) as well. Take two groups of columns that are nearly the same: one missing
    link between them puts the model off from all pairs between them. Deviations that the answer removes
    and those that it leaves are about independent of each other, so squares add up, as they do inside
    and between groups (`Candidate.gain`).
    Candidates whose noise is below `cheap` times their distance are always kept.
    Without this rule, pairs are 5.7 ± 2.5 % worse where columns follow from each other, and no different
    elsewhere (`python -m bench.tune --of-class --epsilon 1 10 --without "explained by others"`)."""
    explaining = AskedPairs(follows)
    out = []
    for c in good:
        if len(c.clique) == 2 and not c.explained:
            part = explaining.of(c.clique)
            left = replace(c, distance=math.sqrt(max(0.0, c.distance**2 - part**2)))
            known = left.gain(sigma) <= 0
            if known and c.noise(sigma) > cheap * c.removed:
                continue
            explaining.ask(c.clique, c.distance)
            c = c if known else left
        out.append(c)
    return out


class AskedPairs:
    """Pairs that will be asked, and what they explain of others. A round of a wide table has
    thousands of pairs, each of which is compared with all before it: by arrays, not one by one."""

    def __init__(self, follows: Follows):
        self.follows = follows
        self.count = 0
        self.distances = np.empty(64)
        self.first = np.empty(64, np.intp)
        self.second = np.empty(64, np.intp)
        """The distance of each asked pair, and the numbers of its columns."""
        self.number: dict[str, int] = {}
        self.known: dict[str, list[float]] = {}
        """How far a column follows from each numbered one."""

    def ask(self, pair: Clique, distance: float) -> None:
        if self.count == self.distances.size:
            self.distances = np.resize(self.distances, 2 * self.count)
            self.first = np.resize(self.first, 2 * self.count)
            self.second = np.resize(self.second, 2 * self.count)
        self.distances[self.count] = distance
        a, b = pair
        self.first[self.count] = self.number.setdefault(a, len(self.number))
        self.second[self.count] = self.number.setdefault(b, len(self.number))
        self.count += 1

    def of(self, pair: Clique) -> float:
        """The largest part of a distance of `pair` that one of the asked pairs explains."""
        if not self.count:
            return 0.0
        first, second = self.first[: self.count], self.second[: self.count]
        a, b = (self._column(name) for name in pair)
        ways = np.maximum(a[first] * b[second], a[second] * b[first])
        return max(0.0, float((self.distances[: self.count] * ways).max()))

    def _column(self, name: str) -> np.ndarray:
        known = self.known.setdefault(name, [])
        if len(known) < len(self.number):
            known += [self.follows(name, x) for x in list(self.number)[len(known) :]]
        return np.array(known)


def affordable_batch(
    chosen: Sequence[Candidate], held: Sequence[Candidate], before: float, precision: float
) -> list[Candidate]:
    """The part of a batch with the largest worth (see the module's text), found greedily by
    distance per portion. Marginals that are `held` already, with a total precision of `before`,
    share the precision with the new ones: each new marginal leaves less for them."""
    batch = []
    removed = 0.0
    total = math.fsum(c.portion for c in held)
    best = -(total**1.5) / math.sqrt(before + precision) if held else -math.inf
    for c in sorted(chosen, key=lambda c: -c.weight * c.removed / c.portion):
        worth = (
            removed
            + c.weight * c.removed
            - (total + c.portion) ** 1.5 / math.sqrt(before + precision)
        )
        if worth > best:
            best = worth
            removed = removed + c.weight * c.removed
            total = total + c.portion
            batch.append(c)
    return batch


def divide(
    batch: Sequence[Candidate], before: Mapping[Key, float], precision: float
) -> dict[Key, float]:
    """The part of `precision` (the sum of 1 / sigma^2) that each marginal of the batch gets.
    `before`: the precision that it has already. Totals are in proportion to the portions; a
    marginal that already has more than its total gets nothing. The batch's order is kept: levels of
    marginals that were measured together are equal but for rounding, and what is asked must not
    depend on how a processor rounds."""
    order = sorted(batch, key=lambda c: before.get(c.key, 0.0) / c.portion)
    level = 0.0
    filled = 0.0
    portions = 0.0
    for i, c in enumerate(order):
        filled += before.get(c.key, 0.0)
        portions += c.portion
        level = (precision + filled) / portions
        if i + 1 < len(order) and level <= before.get(order[i + 1].key, 0.0) / order[i + 1].portion:
            break
    gets = {c.key: level * c.portion - before.get(c.key, 0.0) for c in order[: i + 1]}
    return {c.key: gets[c.key] for c in batch if gets.get(c.key, 0.0) > 1e-6 * precision}
