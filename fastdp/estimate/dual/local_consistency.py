"""The model from measurements of whole marginals: denoised tables that agree (`newton`), then the
model that has them.

Where the junction tree's cliques are measured themselves, the model is the product of their tables
over the separators': nothing is left to fit. Elsewhere (pairs inside larger cliques) tables that
agree pair by pair are the targets of `raking`. There a table is also known through the others,
around the loops of the tree's cliques. Its shrinkage target (centre) brings this in, order by
order. The first round is around independence, or around the model of the lower orders. Then every
region is fitted around the model of those that are not in its group (`partition_groups`). So a
region's answers reach its own centre only through the marginals that all tables agree on. Stein's
estimate of risk asks for a centre that does not depend on the answers, so it holds nearly.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from ..._core.tables import packed
from ..._core.team import Team
from ...domain import Clique, Domain
from ...model.junction_tree import JunctionTree
from .newton import CANDIDATES, FIRST, Dual, Tick, denoise, least_squares
from .possible_cells import possible_cells
from .raking import FLOOR, CliqueTables, Frame, Target, merge_codes
from .region_graph import Regions, SetIndex, restrict
from .shrinkage_targets import (
    first_centre,
    first_shares,
    independent,
    partition_groups,
    strengths,
    strongest_tree,
)

TOURS = 20
"""The most tours of the tree for the final model. Usually 5 to 15 are enough. The Massachusetts
table, 40 times over at epsilon 10, takes all; 24 would lower its errors by 1 %."""
STALLED = 0.05
"""A tour that lowers the targets' squares by less than this share is the last one."""

ROUGH_TOURS = 2
"""Tours for a model of which only shrinkage targets are wanted: six tours change errors by less
than 0.5 %."""
TREE_TOURS = 2
"""Tours for a tree of pairs: the first one reaches the solution, the second removes rounding."""

Possible = Mapping[int, np.ndarray]


class Estimate(Struct):
    """Clique tables of a model, passes over the measured cells, and whether the noise level could
    be reached. `closed`: the tables are the fit itself; else mirror descent may go on from them."""

    cliques: CliqueTables
    passes: int
    reached: bool
    closed: bool


def closed_form(tree: JunctionTree, problem: Regions) -> dict[int, int] | None:
    """For every clique of the tree the region that is its table, where the product of those is the
    model; else None.

    It is if four conditions hold. Every clique of measured attributes is a region (codes may be
    merged). All other regions are marginals of those. Neighbours that share several attributes
    merge their codes alike. Each attribute has one region that is finer than all others about it
    and says how merged codes are split.
    """
    partitions = problem.partitions
    measured = {a for r in problem.regions for a in r.clique}
    chosen: dict[int, int] = {}
    over: dict[frozenset[str], list[int]] = {}
    for i, r in enumerate(problem.regions):
        over.setdefault(frozenset(r.clique), []).append(i)
    for k, clique in enumerate(tree.cliques):
        alike = over.get(frozenset(clique), [])
        names = {i: problem.regions[i].names for i in alike}
        finest = [i for i in alike if all(partitions.within(names[j], names[i]) for j in alike)]
        if finest:
            chosen[k] = finest[0]
        elif len(clique) > 1 or clique[0] in measured:
            return None
    tops = SetIndex([problem.regions[i].names for i in chosen.values()])
    for r in problem.regions:
        near = tops.candidates_above(r.names)
        if r.order > 1 and not any(partitions.within(r.names, top) for top in near):
            return None
    for i, j in tree.edges:
        shared = set(tree.cliques[i]) & set(tree.cliques[j])
        left, right = (dict(problem.regions[chosen[k]].names) for k in (i, j))
        if len(shared) > 1 and any(left.get(a) != right.get(a) for a in shared):
            return None
    return None if any(finest_about(problem, a) is None for a in measured) else chosen


def finest_about(problem: Regions, a: str) -> int | None:
    """The region whose codes of an attribute are finest: finer than or equal to every other's; the
    smallest of those."""
    about = [(i, dict(problem.regions[i].names)[a]) for i in problem.about(a)]
    join = problem.partitions.join
    used = {q for _, q in about}
    best = [i for i, p in about if all(join(a, p, q) == q for q in used)]
    return min(best, key=lambda i: problem.regions[i].cells) if best else None


def fit_tables(
    frame: Frame,
    problem: Regions,
    total: float,
    *,
    rule: str,
    bound: float,
    threads: int | Team,
    tick: Tick | None = None,
    zeros: Mapping[Clique, np.ndarray] | None = None,
    start: CliqueTables | None = None,
    prior: bool = False,
) -> Estimate:
    """Fit the tables of all cliques to the measured regions.

    `rule`: "risk" (least estimated risk), "noise" (sum of squares at `bound`) or "tol" (least
    squares). Where the tables are only targets of raking, "noise" is "risk", since raking adds to
    the squares. `start`: the model to begin with; None: independent attributes. With `prior`, the
    start also gives the shrinkage targets and everything that is not measured.
    """
    domain = frame.domain
    tree = frame.tree
    chosen = None if start is not None else closed_form(tree, problem)
    rule = "risk" if rule == "noise" and chosen is None else rule
    possible = possible_cells(domain, problem, zeros or {})
    solver = _Solver(
        domain,
        problem,
        total,
        rule=rule,
        bound=bound,
        threads=threads,
        tick=tick,
        possible=possible,
    )
    top = max(r.order for r in problem.regions)
    if chosen is not None and (top <= 2 or rule == "tol"):
        cliques = _product(frame, problem, chosen, solver.all_at_once(), total)
        return Estimate(cliques, solver.passes, solver.reached, True)
    if start is None:
        start = CliqueTables.independent(frame, solver.shares_of(domain), total)
    else:
        solver.around(start)
    tables = solver.settle(range(len(problem.regions))) if prior else solver.staged(start)
    if chosen is not None:
        cliques = _product(frame, problem, chosen, list(tables.values()), total)
    else:
        cliques = solver.model(start, tables, TOURS, by_tree=not prior)
        cliques.calibrate(total)
    return Estimate(cliques, solver.passes, solver.reached, chosen is not None)


class _Solver:
    """The regions' tables under one rule."""

    def __init__(
        self,
        domain: Domain,
        problem: Regions,
        total: float,
        *,
        rule: str,
        bound: float,
        threads: int | Team,
        tick: Tick | None,
        possible: Possible,
    ):
        self.domain = domain
        self.problem = problem
        self.total = total
        self.rule = rule
        self.bound = bound
        self.threads = threads
        self._tick = tick
        self.possible = possible
        self.reached = True
        self._work = 0.0
        self.shares = first_shares(problem, threads)
        self.centres: dict[int, np.ndarray] = {}
        self._last: tuple[list[int], Dual] | None = None
        self._model: CliqueTables | None = None
        self.rows = sum(r.rows for r in problem.regions)
        self.cells = sum(r.cells for r in problem.regions)

    @property
    def passes(self) -> int:
        """Passes over the measured cells so far; those over some of them, and tours of raking to
        some, count by their part."""
        return round(self._work)

    def shares_of(self, domain: Domain) -> dict[str, np.ndarray]:
        return {a: self.shares.get(a, np.full(n, 1 / n)) for a, n in domain.items()}

    def _dual(self, numbers: Sequence[int]) -> Dual:
        """The dual of some regions, around their centres or independence; the last one, started
        again, where that was of the same regions."""
        if self._last is None or self._last[0] != list(numbers):
            whole = len(numbers) == len(self.problem.regions)
            problem = self.problem if whole else restrict(self.problem, numbers)
            self._last = (list(numbers), Dual(problem, self.total, self.threads))
        dual = self._last[1]
        work = self._work
        share = dual.cells / self.cells
        report = self._tick

        def tick(calls: int, loss: float) -> None:
            if report is not None:
                report(round(work + calls * share), loss)

        dual.restart(tick if report is not None else None)
        for k, (i, r) in enumerate(zip(numbers, dual.problem.regions)):
            centre = self.centres.get(i)
            if centre is None and r.order == 1:
                centre = first_centre(self.problem, r)
            elif centre is None:
                centre = independent(self.problem, r, self.shares, self.total)
            dual.centre(k, centre, self.possible.get(i))
        return dual

    def all_at_once(self) -> list[np.ndarray]:
        numbers = range(len(self.problem.regions))
        if self.rule != "tol":
            return list(self.settle(numbers).values())
        dual = self._dual(numbers)
        tables, _ = least_squares(dual)
        self._work += dual.passes
        return tables

    def around(self, model: CliqueTables, numbers: Sequence[int] | None = None) -> None:
        """Make the model's marginals the centres of these regions (None: of all with several
        attributes)."""
        regions = self.problem.regions
        if numbers is None:
            numbers = [i for i, r in enumerate(regions) if r.order > 1]
        maps = [(regions[i].clique, self.problem.partitions.maps(regions[i])) for i in numbers]
        tables = packed(
            [merge_codes(model.marginal(clique), bins) for clique, bins in maps], self.threads
        )
        self.centres.update(zip(numbers, tables))

    def staged(self, start: CliqueTables) -> dict[int, np.ndarray]:
        """The tables of all regions, each around the model of those that are not in its group."""
        regions = self.problem.regions
        orders = sorted({r.order for r in regions})
        tables: dict[int, np.ndarray] = {}
        for k in orders:
            new = [i for i, r in enumerate(regions) if r.order == k]
            numbers = [i for i, r in enumerate(regions) if r.order <= k]
            if k == 1:
                if len(orders) == 1:
                    tables = self.settle(numbers)
                continue
            if any(regions[i].order > 1 for i in tables):
                self.around(self.model(start, tables, ROUGH_TOURS), new)
            tables = self.settle(numbers, FIRST)
            strength = strengths(regions, tables, self.threads)
            for group in partition_groups(regions, strength, new):
                others = {i: table for i, table in tables.items() if i not in set(group)}
                if any(regions[i].order > 1 for i in others):
                    kept = {i: s for i, s in strength.items() if i in others}
                    self.around(self.model(start, others, ROUGH_TOURS, strength=kept), group)
            tables = self.settle(numbers)
        return tables

    def model(
        self,
        start: CliqueTables,
        tables: Mapping[int, np.ndarray],
        tours: int,
        by_tree: bool = True,
        strength: Mapping[int, float] | None = None,
    ) -> CliqueTables:
        """The model that has these tables, by raking: from the start to the strongest tree, then to
        all. It takes the place of the last one."""
        model = start.copy(self._model)
        regions = self.problem.regions
        self._model = model
        stalled = STALLED if tours > ROUGH_TOURS else 0.0
        pairs = {i: table for i, table in tables.items() if regions[i].order == 2}
        known = strength or strengths(regions, pairs, self.threads)
        tree = strongest_tree(regions, known) if by_tree else []
        stages: list[tuple] = [(tables, tours, FLOOR, stalled)]
        if tree and len(tree) < len(tables):
            one = {
                i: table for i, table in tables.items() if i in set(tree) or regions[i].order == 1
            }
            stages.insert(0, (one, TREE_TOURS, 0.0, 0.0))
        for held, most, floor, least_fall in stages:
            done = model.rake(self._targets(held), most, floor, least_fall)
            self._work += done * sum(table.size for table in held.values()) / self.cells
        return model

    def settle(
        self, numbers: Sequence[int], candidates: Sequence[tuple[float, float]] = CANDIDATES
    ) -> dict[int, np.ndarray]:
        """The tables of these regions around their centres."""
        dual = self._dual(numbers)
        bound = self.bound * sum(r.rows for r in dual.problem.regions) / self.rows
        tables, self.reached = denoise(dual, bound if self.rule == "noise" else 0.0, candidates)
        self._work += dual.passes * dual.cells / self.cells
        return dict(zip(numbers, tables))

    def _targets(self, tables: Mapping[int, np.ndarray]) -> list[Target]:
        """Targets for raking: the tables that are not marginals of another one."""
        regions = self.problem.regions
        partitions = self.problem.partitions
        holding = SetIndex([regions[i].names for i in tables])
        out = []
        for i, table in tables.items():
            r = regions[i]
            near = holding.candidates_above(r.names)
            if not any(r.names != other and partitions.within(r.names, other) for other in near):
                out.append(Target(r.clique, table, math.sqrt(r.variance), partitions.maps(r)))
        return out


def _product(
    frame: Frame, problem: Regions, chosen: Mapping[int, int], tables, total: float
) -> CliqueTables:
    """The cliques' tables over all codes: inside merged codes each attribute separately."""
    split = {}
    for a in {a for i in chosen.values() for a, number in problem.regions[i].names if number}:
        i = finest_about(problem, a)
        assert i is not None, "closed_form has found one"
        axis = problem.regions[i].clique.index(a)
        sums = tables[i].sum(axis=tuple(k for k in range(tables[i].ndim) if k != axis))
        bins = problem.partitions.bins[a][dict(problem.regions[i].names)[a]]
        split[a] = (sums / np.bincount(bins))[bins]
    full = []
    for k, axes in enumerate(frame.axes):
        if k not in chosen:
            full.append(np.full(frame.domain.shape(axes), total / frame.domain.cells(axes)))
            continue
        r = problem.regions[chosen[k]]
        table = tables[chosen[k]]
        for axis, a in enumerate(r.clique):
            bins = problem.partitions.bins[a][dict(r.names)[a]]
            if dict(r.names)[a]:
                inside = np.bincount(bins, split[a])[bins]
                part = np.divide(
                    split[a], inside, out=(1 / np.bincount(bins))[bins], where=inside > 0
                )
                shape = [-1 if i == axis else 1 for i in range(r.order)]
                table = table.take(bins, axis) * part.reshape(shape)
        full.append(frame.laid(k, table, r.clique))
    out = CliqueTables(frame, full)
    out.calibrate(total)
    return out
