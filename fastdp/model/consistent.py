"""The model from measurements of whole marginals: denoised tables that agree (`dual.py`), then the model
that has them.

Where the junction tree's cliques are measured themselves, the model is the product of their tables over the
separators': nothing is left to fit. Elsewhere (pairs inside larger cliques) tables that agree pair by pair
are the targets of `rake.py`, in stages: the strongest pairs, which form a tree, around independence; the
other pairs around that tree's model; then every higher order around the model of those before it. A
region's centre never depends on its own answers, so that Stein's estimate of its risk holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .._core.team import Team
from ..domain import Clique, Domain
from ..errors import MeasurementError
from .dual import Dual, Tick, denoised, least_squares
from .rake import CliqueTables, Target, merged
from .regions import Region, Regions, restricted
from .tree import JunctionTree

TOURS = 6
"""Times around the tree for a stage. Adult's 58 pairs and its triples are within 0.5 and 0.1 sigma (root
mean square) of their targets then, and their errors no longer move."""

Possible = Mapping[int, np.ndarray]


@dataclass
class Estimate:
    """Clique tables of a model (`closed`: the fit itself; else where mirror descent may go on), passes over
    the measured cells, and whether the noise level could be reached."""

    cliques: CliqueTables
    passes: int
    reached: bool
    closed: bool


def closed_form(tree: JunctionTree, problem: Regions) -> dict[int, int] | None:
    """For every clique of the tree the region that is its table, where the product of those is the model;
    else None.

    It is where every clique of measured attributes is a region (codes may be merged), all other regions are
    marginals of those, neighbours that share several attributes merge their codes alike, and each attribute
    has one region that is finer than all others about it and says how merged codes are split.
    """
    partitions = problem.partitions
    measured = {a for r in problem.regions for a in r.clique}
    chosen: dict[int, int] = {}
    for k, clique in enumerate(tree.cliques):
        alike = [i for i, r in enumerate(problem.regions) if set(r.clique) == set(clique)]
        finest = [
            i
            for i in alike
            if all(partitions.within(problem.regions[j].names, problem.regions[i].names) for j in alike)
        ]
        if finest:
            chosen[k] = finest[0]
        elif len(clique) > 1 or clique[0] in measured:
            return None
    tops = [problem.regions[i].names for i in chosen.values()]
    for r in problem.regions:
        if r.order > 1 and not any(partitions.within(r.names, top) for top in tops):
            return None
    for i, j in tree.edges:
        shared = set(tree.cliques[i]) & set(tree.cliques[j])
        left, right = (dict(problem.regions[chosen[k]].names) for k in (i, j))
        if len(shared) > 1 and any(left.get(a) != right.get(a) for a in shared):
            return None
    if any(finest_about(problem, a) is None for a in measured):
        return None
    return chosen


def finest_about(problem: Regions, a: str) -> int | None:
    """The region whose codes of an attribute are finest: finer than or equal to every other's; the smallest
    of those."""
    about = [(i, dict(r.names)[a]) for i, r in enumerate(problem.regions) if a in r.clique]
    join = problem.partitions.join
    best = [i for i, p in about if all(join(a, p, q) == q for _, q in about)]
    return min(best, key=lambda i: problem.regions[i].cells) if best else None


def estimate(
    domain: Domain,
    tree: JunctionTree,
    problem: Regions,
    total: float,
    rule: str,
    bound: float,
    threads: int | Team,
    tick: Tick | None = None,
    zeros: Mapping[Clique, np.ndarray] | None = None,
    start: CliqueTables | None = None,
) -> Estimate:
    """`rule`: "risk", "noise" (squares at `bound`; where the tables are only targets of raking, which adds
    to the squares, those of least risk) or "tol" (least squares). `start`: the model to stay near, if not
    independence of the attributes; it decides the centres, and what is not measured."""
    chosen = None if start is not None else closed_form(tree, problem)
    rule = "risk" if rule == "noise" and chosen is None else rule
    solver = _Solver(
        domain, problem, total, rule, bound, threads, tick, _possible(domain, problem, zeros or {})
    )
    top = max(r.order for r in problem.regions)
    if chosen is not None and (top <= 2 or rule == "tol"):
        tables = solver.all_at_once()
        return Estimate(
            _product(domain, tree, problem, chosen, tables, total), solver.passes, solver.reached, True
        )
    cliques = (
        start
        if start is not None
        else CliqueTables.independent(domain, tree, solver.shares_of(domain), total)
    )
    tables = solver.staged(cliques, from_start=start is not None)
    if chosen is not None:
        return Estimate(
            _product(domain, tree, problem, chosen, tables, total), solver.passes, solver.reached, True
        )
    cliques.calibrate(total)
    return Estimate(cliques, solver.passes, solver.reached, False)


class _Solver:
    """The regions' tables under one rule."""

    def __init__(self, domain, problem, total, rule, bound, threads, tick, possible: Possible):
        self.domain, self.problem, self.total, self.rule, self.bound = domain, problem, total, rule, bound
        self.threads, self._tick, self.possible = threads, tick, possible
        self.passes, self.reached = 0, True
        self.shares = first_shares(problem)
        self.rows, self.cells = (sum(n) for n in zip(*((r.rows, r.cells) for r in problem.regions)))

    def shares_of(self, domain: Domain) -> dict[str, np.ndarray]:
        return {a: self.shares.get(a, np.full(n, 1 / n)) for a, n in domain.items()}

    def _passes(self, dual_passes: int, cells: int) -> int:
        """Passes over some of the cells as passes over all of them, and those before."""
        return self.passes + round(dual_passes * cells / self.cells)

    def dual(self, problem: Regions, numbers: Sequence[int], centres: Mapping[int, np.ndarray]) -> Dual:
        """The dual of some regions (`numbers` in the whole problem), around given centres or independence."""
        cells = sum(r.cells for r in problem.regions)
        tick = self._tick and (lambda calls, loss: self._tick(self._passes(calls, cells), loss))
        dual = Dual(problem, self.total, self.threads, tick)
        for k, (i, r) in enumerate(zip(numbers, problem.regions)):
            if i in centres:
                centre = centres[i]
            elif r.order == 1:
                centre = first_centre(self.problem, r)
            else:
                centre = independent(self.problem, r, self.shares, self.total)
            dual.centre(k, centre, self.possible.get(i))
        return dual

    def all_at_once(self) -> list[np.ndarray]:
        if self.rule != "tol":
            return list(self._settle(range(len(self.problem.regions)), {}).values())
        dual = self.dual(self.problem, range(len(self.problem.regions)), {})
        tables, _ = least_squares(dual)
        self.passes += dual.passes
        return tables

    def staged(self, cliques: CliqueTables, from_start: bool) -> list[np.ndarray]:
        """The tables of all regions; `cliques` becomes the model that has them."""
        regions = self.problem.regions
        singles = [i for i, r in enumerate(regions) if r.order == 1]
        orders = sorted({r.order for r in regions if r.order > 1})
        centres: dict[int, np.ndarray] = {}
        numbers = list(singles)
        tables = {}
        if not orders:
            tables = self._settle(singles, centres)
            cliques.rake(self._targets(tables), 1, floor=0.0)
        for k in orders:
            new = [i for i, r in enumerate(regions) if r.order == k]
            numbers = [i for i, r in enumerate(regions) if r.order <= k]
            if k == 2 and not from_start:
                tables = self._settle(numbers, centres)
                tree = strongest_tree(regions, tables)
                cliques.rake(self._targets({i: tables[i] for i in tree}), 2, floor=0.0)
                new = [i for i in new if i not in tree]
            if new and (len(numbers) > len(singles) + len(new) or from_start):
                for i in new:
                    centres[i] = merged(cliques.marginal(regions[i].clique), self._bins(regions[i]))
            if new or k > 2:
                tables = self._settle(numbers, centres)
                cliques.rake(self._targets(tables), TOURS)
        return [tables[i] for i in range(len(regions))]

    def _settle(self, numbers: Sequence[int], centres: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        whole = len(numbers) == len(self.problem.regions)
        dual = self.dual(self.problem if whole else restricted(self.problem, numbers), numbers, centres)
        bound = self.bound * sum(r.rows for r in dual.problem.regions) / self.rows
        tables, self.reached = denoised(dual, bound if self.rule == "noise" else 0.0)
        self.passes = self._passes(dual.passes, dual.cells)
        return dict(zip(numbers, tables))

    def _bins(self, region: Region) -> list[np.ndarray | None]:
        partitions = self.problem.partitions
        return [partitions.bins[a][p] if (p := dict(region.names)[a]) else None for a in region.clique]

    def _targets(self, tables: Mapping[int, np.ndarray]) -> list[Target]:
        """Targets for raking: the tables that are not marginals of another one."""
        regions, within = self.problem.regions, self.problem.partitions.within
        names = [regions[i].names for i in tables]
        out = []
        for i, table in tables.items():
            r = regions[i]
            if not any(r.names != other and within(r.names, other) for other in names):
                out.append(
                    Target(r.clique, table, float(np.sqrt(np.mean(np.square(r.sigma)))), self._bins(r))
                )
        return out


def first_centre(problem: Regions, r: Region) -> np.ndarray:
    """Of a single attribute: the answer, at least half a sigma; codes that pairs see merged: the mean of
    their answers, at least a tenth."""
    sigma = np.broadcast_to(r.sigma, r.y.shape)
    centre = np.maximum(r.y, 0.5 * sigma)
    ((a, fine),) = r.names
    for q in problem.regions:
        p = dict(q.names).get(a, fine)
        if q.order > 1 and p != fine and problem.partitions.join(a, fine, p) == p:
            bins = problem.partitions.lift(a, fine, p)
            n = np.bincount(bins)
            mean = np.maximum(np.bincount(bins, r.y) / n, 0.1 * np.bincount(bins, sigma) / n)
            centre = np.where(n[bins] > 1, mean[bins], centre)
    return centre


def first_shares(problem: Regions) -> dict[str, np.ndarray]:
    """The share of every code of the measured attributes: from the attribute by itself, or summed up from
    the region that has it with the least noise."""
    out = {}
    for a in {a for r in problem.regions for a in r.clique}:
        about = [r for r in problem.regions if a in r.clique]
        r = min(about, key=lambda r: (r.order > 1, float(np.mean(np.square(r.sigma))) * r.cells))
        axis = r.clique.index(a)
        if r.order == 1:
            shares = first_centre(problem, r)
        else:
            sums = r.y.reshape(r.shape).sum(axis=tuple(i for i in range(r.order) if i != axis))
            noise = float(np.sqrt(np.mean(np.square(r.sigma)) * (r.cells // r.shape[axis])))
            shares = np.maximum(sums, 0.5 * noise)
        bins = problem.partitions.bins[a][dict(r.names)[a]]
        shares = (shares / np.bincount(bins))[bins]
        out[a] = shares / shares.sum()
    return out


def independent(problem: Regions, r: Region, shares: Mapping[str, np.ndarray], total: float) -> np.ndarray:
    table = np.full((), total)
    for a in r.clique:
        table = np.multiply.outer(table, np.bincount(problem.partitions.bins[a][dict(r.names)[a]], shares[a]))
    return table


def strongest_tree(regions: Sequence[Region], tables: Mapping[int, np.ndarray]) -> list[int]:
    """The pairs of a maximum spanning forest by mutual information."""
    weight = {}
    for i, table in tables.items():
        if regions[i].order == 2:
            free = np.outer(table.sum(1), table.sum(0)) / table.sum()
            weight[i] = float(np.sum(table * np.log(np.maximum(table, 1e-9) / np.maximum(free, 1e-9))))
    group: dict[str, str] = {}

    def root(a: str) -> str:
        while group.setdefault(a, a) != a:
            a = group[a]
        return a

    out = []
    for i in sorted(weight, key=lambda i: (-weight[i], i)):
        a, b = (root(name) for name in regions[i].clique)
        if a != b:
            group[a] = b
            out.append(i)
    return out


def _product(domain, tree, problem: Regions, chosen: Mapping[int, int], tables, total: float) -> CliqueTables:
    """The cliques' tables over all codes: inside merged codes each attribute by itself."""
    split = {}
    for a in {a for r in problem.regions for a in r.clique}:
        i = finest_about(problem, a)
        if i is None:
            raise ValueError(
                f"no region about {a} is finer than all others: the tables are not in closed form"
            )
        axis = problem.regions[i].clique.index(a)
        sums = tables[i].sum(axis=tuple(k for k in range(tables[i].ndim) if k != axis))
        bins = problem.partitions.bins[a][dict(problem.regions[i].names)[a]]
        split[a] = (sums / np.bincount(bins))[bins]
    full = []
    for k, clique in enumerate(tree.cliques):
        if k not in chosen:
            full.append(np.full(domain.shape(clique), total / domain.cells(clique)))
            continue
        r, table = problem.regions[chosen[k]], tables[chosen[k]]
        for axis, a in enumerate(r.clique):
            bins = problem.partitions.bins[a][dict(r.names)[a]]
            if dict(r.names)[a]:
                inside = np.bincount(bins, split[a])[bins]
                part = np.divide(split[a], inside, out=(1 / np.bincount(bins))[bins], where=inside > 0)
                table = table.take(bins, axis) * part.reshape(
                    [-1 if i == axis else 1 for i in range(r.order)]
                )
        full.append(np.ascontiguousarray(table.transpose([r.clique.index(a) for a in clique])))
    out = CliqueTables(domain, tree, full)
    out.calibrate(total)
    return out


def _possible(domain: Domain, problem: Regions, zeros: Mapping[Clique, np.ndarray]) -> dict[int, np.ndarray]:
    """Which cells of which regions are possible: not ruled out by `zeros`, and with a possible counterpart
    wherever regions must agree. Regions where all are possible are left out."""
    out: dict[int, np.ndarray] = {}
    partitions = problem.partitions
    for clique, mask in zeros.items():
        free = ~np.asarray(mask, bool).reshape(domain.shape(clique))
        for i, r in enumerate(problem.regions):
            if set(clique) <= set(r.clique):
                kept = [a for a in r.clique if a in clique]
                cube = free.transpose([clique.index(a) for a in kept])
                bins = [partitions.bins[a][dict(r.names)[a]] for a in kept]
                any_free = merged(cube.astype(np.float64), bins) > 0
                any_free = any_free.reshape(
                    [r.shape[k] if a in clique else 1 for k, a in enumerate(r.clique)]
                )
                out[i] = out.get(i, np.ones(r.shape, bool)) & any_free
    changed = bool(out)
    while changed:
        changed = False
        for c in problem.constraints:
            if c.right is None or (c.left not in out and c.right not in out):
                continue
            sides = [_onto(problem, i, out.get(i), c.names) for i in (c.left, c.right)]
            both = sides[0] & sides[1]
            for i, side in zip((c.left, c.right), sides):
                if (side & ~both).any():
                    out[i] = out.get(i, np.ones(problem.regions[i].shape, bool)) & _back(
                        problem, i, both, c.names
                    )
                    changed = True
    if any(not mask.any() for mask in out.values()):
        raise MeasurementError("structural zeros leave no possible row: check `zeros` for a contradiction")
    return out


def _onto(problem: Regions, i: int, mask: np.ndarray | None, names) -> np.ndarray:
    """Which cells of a meet have a possible cell in region i."""
    p, r, number = problem.partitions, problem.regions[i], dict(names)
    if mask is None:
        return np.ones([p.size(a, number[a]) for a in p.axes(names)], bool)
    table = mask.astype(np.float64).sum(axis=tuple(k for k, a in enumerate(r.clique) if a not in number))
    return merged(table, [p.lift(a, dict(r.names)[a], number[a]) for a in p.axes(names)]) > 0


def _back(problem: Regions, i: int, mask: np.ndarray, names) -> np.ndarray:
    """Which cells of region i lie over cells of a meet in the mask."""
    p, r, number = problem.partitions, problem.regions[i], dict(names)
    for axis, a in enumerate(p.axes(names)):
        mask = mask.take(p.lift(a, dict(r.names)[a], number[a]), axis)
    return np.broadcast_to(
        mask.reshape([r.shape[k] if a in number else 1 for k, a in enumerate(r.clique)]), r.shape
    )
