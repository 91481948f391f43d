"""AdaGrid (Minutemen, DeID2 sprint 3): marginals measured cell by cell only where counts stand out
of noise.

Round k measures the k-way sets of the downward closure of the outer marginals. A cell is
*plausible* if every (k-1)-way cell it projects to was itself measured finely and came out above
`threshold` standard deviations. Plausible cells are measured one by one; for the rest, each child's
own query of the remainder is measured again, scaled by 1/sqrt(number of children). So every column
of the query has L2 norm exactly 1 and no budget is wasted on empty cells.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal

import msgspec
import numpy as np

from ..domain import Clique, Cliques, Domain, Tables, downward_closure, maximal
from ..measurement import Measurement, Request
from ..queries import AdaGrid as GridQuery, Grid
from ..release.gateway import Session
from ..schema import Schema
from ..significance import SURE
from .base import Begun, Job, OnesFirst, Outcome, Public, whole_total
from .limits.model_size import LargestModel, largest_forest, tree_size
from .limits.size_limits import MAX_PAIR_CELLS
from .plans import Outline, Planned, PlannedStep, any_pair
from .registry import mechanism
from .shared.merged_codes import merge
from .shared.model_rows import ModelRows
from .shared.one_ways import measure_planned, ones_step, part_mu
from .shared.public_prior import PublicMarginals
from .shared.screened_pairs import screen_pairs
from .shared.spanning_tree import pair_shares, spanning_tree
from .shared.user_histogram import measure_users

ONES = "1-ways to judge pairs by"
CHOICE = "private choice of pairs"
CHOSEN = "marginals of the chosen sets"
LEAST_SHARE = 1e-6
"""The smallest `selection`: with less, a choice would be noise at any epsilon in use."""
WAYS = 3
"""The most columns of an outer marginal that is chosen with public data."""
MAX_OUTER_CELLS = 200_000
"""The most cells of such a marginal."""
MOST_TIMES = 1000
"""Most copies of one marginal. They are averaged, so copies only cost memory and draws: the noise
of n copies with 1/n of the share each is that of one."""
MOST_OUTER_COLUMNS = 12
"""Most columns of an outer marginal: all its subsets are measured."""


class Copy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`clique` is measured `times` times in all."""

    clique: tuple[str, ...]
    times: int

    def __post_init__(self):
        if not 1 <= self.times <= MOST_TIMES:
            raise ValueError(f"times must lie in 1..{MOST_TIMES} (it counts the first measurement)")


@mechanism(
    "adagrid",
    about="marginals measured finely only where there is something to see",
    takes_prior=True,
    may_choose_clip=True,
    fits_sparse=True,
)
class AdaGrid(OnesFirst, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`outer`: the marginals whose downward closure is measured. Without `outer` they are chosen,
    for a share `selection` of mu^2. A spanning tree of pairs is chosen then. With public data, so
    are marginals of up to three columns: they are grown from pairs for which noisy distances say
    that the public data is close to the private data. `rounds`: how the rest of mu^2 is divided
    among the rounds; inside a round all measurements have the same share. Without `rounds` all
    measurements of all rounds have the same share, as published."""

    outer: tuple[tuple[str, ...], ...] | None = None
    copies: tuple[Copy, ...] = ()
    threshold: float = 5.0
    rounds: tuple[float, ...] | None = None
    selection: float = 0.1
    stop: Literal["refined", "noise", "tol", "published"] = "refined"

    def __post_init__(self):
        super().__post_init__()
        if not self.threshold >= 0:
            raise ValueError("threshold must be >= 0 (in standard deviations)")
        if self.rounds is not None and not (self.rounds and all(s > 0 for s in self.rounds)):
            raise ValueError("rounds: expected positive shares")
        if not LEAST_SHARE <= self.selection < 1:
            raise ValueError(f"selection must be at least {LEAST_SHARE:g} and below 1")
        if self.outer is None:
            if self.rounds is not None and len(self.rounds) < 2:
                raise ValueError("rounds: expected at least 2 shares, because `outer` is not given")
            if self.copies:
                raise ValueError(
                    "copies: they repeat marginals of `outer`, so `outer` is needed too"
                )
            return
        if not self.outer or not all(self.outer):
            raise ValueError("outer must name at least one marginal, each with at least one column")
        depth = max(map(len, self.outer))
        if depth > MOST_OUTER_COLUMNS:
            raise ValueError(f"outer: a marginal has at most {MOST_OUTER_COLUMNS} columns")
        if self.rounds is not None and len(self.rounds) != depth:
            raise ValueError(
                f"rounds: expected {depth} shares for {depth} rounds, got {len(self.rounds)}"
            )
        for copy in self.copies:
            if not any(set(copy.clique) <= set(clique) for clique in self.outer):
                raise ValueError(f"copies: {copy.clique} is not contained in a marginal of `outer`")

    def begin(self, session: Session, job: Job) -> Begun:
        """The 1-ways: to choose the outer marginals by; where these are given, round 1."""
        users = measure_users(self, session, job)
        plan = self.steps(session.domain, users.share, public=job.public is not None)
        if self.outer is None:
            return Begun(users, measure_planned(session, plan, ONES))
        session.expect(self.outer)
        return Begun(users, Rounds(self.threshold).measure(session, plan.steps[0], job))

    def complete(self, session: Session, job: Job, begun: Begun, saved: float) -> Outcome:
        users = begun.users
        outer, left, about = self.choose(session, job, begun)
        released: list[Measurement] = [*users.released, *begun.ones]
        steps = self.rounds_of(session.domain, outer, left)
        rounds = Rounds(self.threshold)
        if self.outer is None:
            session.expect(outer)
        else:
            rounds.take(session.domain, steps.pop(0), begun.ones, job)
        for step in steps:
            released += rounds.measure(session, step, job)
        ways = [m for m in released if m is not users.histogram]
        model = job.fit(
            session.domain, ways, zeros=job.zeros.impossible, **self.stopping(job.epsilon)
        )
        return Outcome(
            rows=ModelRows(
                model, whole_total(model.total * users.clip_correction, job.rows), job.seed
            ),
            measurements=tuple(released),
            model=model,
            users=users.histogram,
            id_columns=tuple(a for a in outer[0] if all(a in s for s in outer)),
            details={"outer": [list(s) for s in outer], **about},
        )

    def choose(self, session: Session, job: Job, begun: Begun) -> tuple[Cliques, float, dict]:
        """(outer marginals, share of mu^2 for their rounds, how public data was used, for the
        statement)."""
        taken = begun.users.share
        if self.outer is not None:
            return self.outer, 1 - taken, {}
        plan = self.steps(session.domain, taken, public=job.public is not None)
        for_choice = plan.share(CHOICE)
        rest = plan.share(CHOSEN)
        ones = begun.ones
        public = PublicMarginals.of(job.prior)
        if public is None:
            tree = spanning_tree(session, ones, for_choice, zeros=job.zeros)
            if any(len(s) == 2 for s in tree):
                return tree, rest, {}
            return [(a,) for a in session.domain], rest + for_choice, {}
        merged = merge(
            session.domain,
            public.ones(ones),
            SURE,
            impossible=job.zeros.impossible,
            schema=session.schema,
        )
        screened = screen_pairs(session, merged, public, for_choice)
        ways = WAYS if self.rounds is None else min(WAYS, len(self.rounds))
        outer = screened.outer(session.domain, ways, MAX_OUTER_CELLS, job.zeros)
        about = {"believed": [list(c.clique) for c in screened.pairs if c.explained > 0]}
        return outer, rest + for_choice - screened.spent, {"public": about}

    def split(self, left: float) -> tuple[float, float]:
        """`left` of mu^2 as (share for choosing the outer marginals, share for measuring)."""
        return left * self.selection, left * (1 - self.selection)

    def check(self, schema: Schema) -> None:
        if self.outer is not None:
            self.shares(closure(schema.modelled, self.outer))

    def largest_model(self, domain: Domain, public: Public | None, fixed: Cliques) -> LargestModel:
        if self.outer is not None:
            return tree_size(domain, maximal([*closure(domain, self.outer), *fixed]))
        pairs = largest_forest(domain, MAX_PAIR_CELLS, fixed)
        if public is None or fixed:
            return pairs
        triple = min(MAX_OUTER_CELLS, math.prod(sorted(domain.values())[-WAYS:]))
        return LargestModel(pairs.cells + len(domain) * triple, False, pairs.cliques)

    def stopping(self, epsilon: float) -> dict:
        """`published`: 344 * epsilon + 256 plain mirror descent iterations, for comparison."""
        if self.stop == "published":
            return {
                "stop": "iters",
                "iters": round(344 * epsilon + 256),
                "method": "mirror-descent",
            }
        return {"stop": self.stop}

    def shares(self, sets: Cliques) -> dict[Clique, tuple[float, int]]:
        """(share of each measurement, how many there are) of every set; shares times numbers add up
        to 1."""
        planned = {frozenset(s): s for s in sets}
        times = dict.fromkeys(sets, 1)
        for copy in self.copies:
            times[planned[frozenset(copy.clique)]] = copy.times
        if self.rounds is None:
            return {s: (1 / sum(times.values()), n) for s, n in times.items()}
        depth = max(map(len, sets))
        weights = self.rounds[:depth]
        in_round = {k: sum(n for s, n in times.items() if len(s) == k) for k in range(1, depth + 1)}
        share = [r / sum(weights) for r in weights]
        return {s: (share[len(s) - 1] / in_round[len(s)], n) for s, n in times.items()}

    def clip_criteria(
        self, domain: Domain, *, public: bool = False, user: bool = True
    ) -> list[Planned]:
        """Without `outer`: every 1-way, and pairs of all sizes in place of the tree that the run
        will choose."""
        plan = self.outline(domain, public=public, user=user)
        if self.outer is not None:
            return list(plan.measurements)
        part = plan.share(CHOSEN) / (2 * len(domain) - 1)
        return [*(Planned((a,), part, domain[a]) for a in domain), *any_pair(domain, part)]

    def rounds_of(self, domain: Domain, outer: Cliques, left: float) -> list[PlannedStep]:
        """A round for each number of columns, with a line for every set of the downward closure."""
        sets = closure(domain, outer)
        shares = self.shares(sets)
        rounds = []
        for k in range(1, max(map(len, sets)) + 1):
            label = f"round {k}"
            own = [(s, *shares[s]) for s in sets if len(s) == k]
            lines = [Planned(s, x * left, domain.cells(s), n, note=label) for s, x, n in own]
            rounds.append(PlannedStep(label, sum(p.share * p.times for p in lines), tuple(lines)))
        return rounds

    def steps(self, domain: Domain, taken: float, *, public: bool = False) -> Outline:
        left = 1 - taken
        if self.outer is not None:
            rounds = tuple(self.rounds_of(domain, self.outer, left))
            sets = [line.clique for step in rounds for line in step.lines]
            return Outline(rounds, tuple(maximal(sets)))
        for_pairs, for_sets = self.split(left)
        for_ones, for_choice = pair_shares(for_pairs)
        note = "outer marginals: a spanning tree of pairs, chosen privately"
        if public:
            note += (
                f", and marginals of up to {WAYS} columns where the pairs of the public data are"
                " found to be right"
            )
        ones = ones_step(domain, for_ones, label=ONES, note="judging pairs")
        steps = (ones, PlannedStep(CHOICE, for_choice), PlannedStep(CHOSEN, for_sets))
        return Outline(steps, notes=(note,))


class Rounds:
    """The rounds so far: the grid of every set, and its plausible cells. A cell is plausible above
    `threshold` standard deviations."""

    def __init__(self, threshold: float):
        self.threshold = threshold
        self.grids: dict[frozenset, Grid] = {}
        self.noisy: dict[frozenset, np.ndarray] = {}

    def measure(self, session: Session, step: PlannedStep, job: Job) -> list[Measurement]:
        """The answers of a round."""
        self._divide(session.domain, step, job)
        requests = [
            Request(p.clique, part_mu(session, p.share), GridQuery(self.grids[frozenset(p.clique)]))
            for p in step.lines
            for _ in range(p.times)
        ]
        answers = session.measure(requests, label=step.label)
        self._look(step, answers)
        return answers

    def take(
        self, domain: Domain, step: PlannedStep, answers: Sequence[Measurement], job: Job
    ) -> None:
        """Go on from a round that was measured before."""
        self._divide(domain, step, job)
        self._look(step, answers)

    def _divide(self, domain: Domain, step: PlannedStep, job: Job) -> None:
        """The grids of a round's sets."""
        for line in step.lines:
            self.grids[frozenset(line.clique)] = grid_of(
                domain, line.clique, self.grids, self.noisy, job.zeros.impossible
            )

    def _look(self, step: PlannedStep, answers: Sequence[Measurement]) -> None:
        """Where the answers stand out of noise."""
        for line in step.lines:
            own = frozenset(line.clique)
            copies = [m for m in answers if m.clique == line.clique]
            self.noisy[own] = plausible(self.grids[own], copies, self.threshold)


def closure(domain: Domain, outer: Sequence[Sequence[str]]) -> list[Clique]:
    """Every set to measure, smallest first: the downward closure of the outer marginals, and each
    attribute that none of them names. The model would otherwise take such an attribute as uniform."""
    outer = [domain.check(s) for s in outer]
    sets = downward_closure(outer)
    covered = {a for s in sets for a in s}
    return [*((a,) for a in domain if a not in covered), *sets]


def grid_of(
    domain: Domain,
    clique: Clique,
    grids: Mapping[frozenset, Grid],
    noisy: Mapping[frozenset, np.ndarray],
    impossible: Tables | None = None,
) -> Grid:
    """The grid of one set, from the grids of its children and their plausible cells (`plausible`).
    Cells that are `impossible` are never measured one by one: rows that nevertheless lie there
    count in the remainder."""
    shape = domain.shape(clique)
    if len(clique) == 1:
        return Grid(clique, shape, np.arange(shape[0]))
    mask = np.ones(shape, bool)
    for names, ruled_out in (impossible or {}).items():
        if len(names) > 1 and set(names) <= set(clique):
            lay = (~ruled_out).transpose([names.index(a) for a in clique if a in names])
            mask &= lay.reshape([n if a in names else 1 for a, n in zip(clique, shape)])
    children = []
    for part in combinations(clique, len(clique) - 1):
        child = grids[frozenset(part)]
        passed = np.zeros(math.prod(child.shape), bool)
        passed[noisy[frozenset(part)]] = True
        order = [child.clique.index(a) for a in clique if a in child.clique]
        lay = passed.reshape(child.shape).transpose(order)
        mask &= lay.reshape([n if a in child.clique else 1 for a, n in zip(clique, shape)])
        children.append(child)
    return Grid(clique, shape, np.flatnonzero(mask), tuple(children))


def plausible(grid: Grid, answers: Sequence[Measurement], threshold: float) -> np.ndarray:
    """The fine cells whose answer, averaged over the copies, exceeds `threshold` averaged standard
    deviations."""
    n = grid.fine.size
    weight = np.zeros(n)
    total = np.zeros(n)
    for m in answers:
        precision = 1 / np.square(np.broadcast_to(np.asarray(m.sigma, float), m.values.shape)[:n])
        weight += precision
        total += precision * m.values[:n]
    with np.errstate(invalid="ignore", divide="ignore"):
        return grid.fine[total / weight > threshold / np.sqrt(weight)]
