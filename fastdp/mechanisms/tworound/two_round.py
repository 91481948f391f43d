"""The two-round mechanism (McKenna, NIST 2018, match 3): wide tables, most of whose codes never
occur.

Round 1 measures every 1-way marginal. A value whose noisy count is under `threshold` standard
errors is merged with the other such values of its column. So round 2 measures its 2- and 3-way
marginals over the few codes that occur. Within a round the weights are normalised: a marginal of
weight w has a share w^2 / (sum of the round's w^2) of the round's mu^2. Marginals too large, or
that would make the model's junction tree too large, are left out, and the run's notes say so. The
model is over the compressed codes; synthetic rows are expanded again.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ...codec.possible import impossible, merged_masks
from ...domain import Clique, Cliques, Domain
from ...errors import SchemaError, UsageError
from ...measurement import Measurement, Request
from ...model.junction_tree import DEFAULT_MAX_CELLS
from ...queries import Binned
from ...release.gateway import Session
from ...schema import Schema
from ...schema.constraints import Constraint
from ..base import Begun, Job, OnesFirst, Outcome, Public, whole_total
from ..limits.model_size import LargestModel, largest_forest, tree_size
from ..limits.size_limits import MAX_PAIR_CELLS
from ..limits.structural_zeros import StructuralZeros
from ..plans import Outline, Planned, PlannedStep, any_pair
from ..registry import mechanism
from ..shared.code_compression import (
    Compression,
    Expansion,
    merge_classes,
    merge_outside,
    merge_rare,
)
from ..shared.expanded_rows import ExpandedRows
from ..shared.one_ways import measure_planned, part_mu
from ..shared.spanning_tree import spanning_tree
from ..shared.user_histogram import in_proportion, measure_users
from .affordable_cliques import affordable
from .region import Region, column_of

ROUND_1 = "round 1"
ROUND_2 = "round 2"
CHOICE = "private choice of pairs"
TREE = "round 2, a spanning tree of pairs"


class Marginal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A marginal of round 2 with a weight, and for some columns the first codes of the bins it is
    measured in."""

    clique: tuple[str, ...]
    weight: float = 1.0
    edges: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)

    def __post_init__(self):
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise ValueError("weight must be positive")
        for name, edges in self.edges.items():
            if name not in self.clique:
                raise ValueError(f"edges: {name!r} is not in the clique")
            if not edges or edges[0] != 0 or any(b <= a for a, b in pairwise(edges)):
                raise ValueError("edges: expected codes in ascending order, starting at 0")

    def query(self, domain: Domain) -> Binned | None:
        if not self.edges:
            return None
        bins: list[np.ndarray | None] = []
        for a in self.clique:
            edges = self.edges.get(a)
            code = np.arange(domain[a])
            bins.append(None if edges is None else np.searchsorted(edges, code, side="right") - 1)
        return Binned(domain.shape(self.clique), bins)


class Shares(Struct, frozen=True):
    """Shares of mu^2: `first`, of each column's 1-way in round 1; `choice`, for choosing the
    marginals of round 2; `second`, for measuring these."""

    first: Mapping[str, float]
    choice: float
    second: float


@mechanism(
    "tworound",
    about="wide tables, most of whose codes never occur",
    may_choose_clip=True,
    max_cells_steps=("round 2",),
)
class TwoRound(OnesFirst, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`round2`: marginals, as lists of columns or `Marginal`s. Without them a spanning tree of
    pairs is chosen privately, for `selection` of round 2. `weights`: of round 1, by column.
    `shares` of mu^2 of the two rounds. `keep`: columns that are never compressed. `max_marginal`,
    `max_cells`: largest marginal, largest model."""

    round2: tuple[tuple[str, ...] | Marginal, ...] | None = None
    weights: dict[str, float] = msgspec.field(default_factory=dict)
    shares: tuple[float, float] = (0.5, 0.5)
    threshold: float = 3.0
    keep: tuple[str, ...] = ()
    regions: tuple[Region, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    selection: float = 1 / 3
    max_marginal: int = 1_000_000
    max_cells: int | None = 20_000_000
    stop: Literal["noise", "tol"] = "noise"

    def __post_init__(self):
        super().__post_init__()
        if not all(s > 0 for s in self.shares) or not all(w > 0 for w in self.weights.values()):
            raise ValueError("shares and weights must be positive")
        if not self.threshold >= 0:
            raise ValueError("threshold must be >= 0 (in standard errors)")
        if not 0 < self.selection < 1:
            raise ValueError("selection must lie strictly between 0 and 1")
        if self.max_marginal < 1:
            raise ValueError("max_marginal must be at least 1")
        if any(not c.columns for c in self.constraints):
            raise ValueError(
                "constraints: a recipe can only list values of columns; put other constraints "
                "into the schema"
            )
        for m in self.listed:
            if not m.clique:
                raise ValueError("round2: a marginal needs at least one column")
            if loose := set(m.edges) - set(self.keep):
                raise ValueError(
                    "edges: they refer to the schema's codes, so put "
                    f"{', '.join(sorted(loose))} in `keep`"
                )

    @property
    def limit(self) -> int:
        """Cells that the model may have."""
        return DEFAULT_MAX_CELLS if self.fit_limit is None else self.fit_limit

    def largest_model(self, domain: Domain, public: Public | None, fixed: Cliques) -> LargestModel:
        """Merging only makes domains smaller, so sizes before it are upper bounds. Marginals that
        would make the model too large are left out; 1-ways and cliques of constraints stay whatever
        their size."""
        constraints = [*fixed, *(c.columns for c in self.constraints)]
        kept = tree_size(domain, [*((a,) for a in domain), *constraints])
        if kept.cells > self.limit:
            return kept
        if self.round2 is not None:
            wanted = tree_size(domain, [*kept.cliques, *(m.clique for m in self.listed)])
        else:
            wanted = largest_forest(domain, MAX_PAIR_CELLS, constraints)
        return replace(wanted.within(self.limit), exact=False)

    @property
    def listed(self) -> list[Marginal]:
        return [m if isinstance(m, Marginal) else Marginal(clique=m) for m in self.round2 or ()]

    def begin(self, session: Session, job: Job) -> Begun:
        users = measure_users(self, session, job)
        plan = self.steps(session.domain, users.share)
        return Begun(users, measure_planned(session, plan, ROUND_1))

    def complete(self, session: Session, job: Job, begun: Begun, saved: float) -> Outcome:
        users = begun.users
        ones = begun.ones
        plan = self.steps(session.domain, users.share)
        compression, masks, inferred = self.compress(session.schema, ones, job.zeros.impossible)
        merged = [compression.measurement(m) for m in ones]
        zeros = compression.zeros(masks)

        full_zeros = StructuralZeros(masks, job.zeros.settled)
        wanted, second = self.choose(session, compression, merged, plan, full_zeros)
        weight = {m.clique: m.weight for m in wanted}
        kept, dropped = affordable(
            compression.domain, list(weight), self.max_marginal, self.limit, list(zeros), weight
        )
        chosen = [m for m in wanted if m.clique in kept]
        pairs = self.measure_round2(session, compression, chosen, second)
        model = job.fit(compression.domain, [*merged, *pairs], zeros=zeros, stop=self.stop)
        frequencies = public_frequencies(job, compression)
        return Outcome(
            rows=ExpandedRows(
                model,
                whole_total(model.total * users.clip_correction, job.rows),
                job.seed,
                Expansion(compression, frequencies, masks, job.seed),
            ),
            measurements=(*users.released, *ones, *pairs),
            model=model,
            users=users.histogram,
            tables={"codes": compression.table()},
            notes=tuple(f"round 2 left out {', '.join(c)}: {why}" for c, why in dropped.items()),
            details={
                "round2": [list(c) for c in kept],
                "left_out": [list(c) for c in dropped],
                "compressed_to": {name: compression.domain[name] for name in compression.codes},
                "inferred": inferred,
            },
        )

    def compress(
        self, schema: Schema, ones: Sequence[Measurement], zeros: Mapping[Clique, np.ndarray]
    ) -> tuple[Compression, dict[Clique, np.ndarray], dict[str, str]]:
        """(code maps, public constraints over the full codes, the group inferred for each column of
        `regions`)."""
        masks = [*zeros.items(), *((c.columns, impossible(schema, c)) for c in self.constraints)]
        regions = {r.column: r for r in self.regions}
        codes = {}
        inferred = {}
        for m in ones:
            (name,) = m.clique
            if name in regions:
                inferred[name], outside = regions[name].infer(schema, m)
                masks.append(((name,), outside))
                codes[name] = merge_outside(~outside)
            elif name not in self.keep:
                codes[name] = merge_rare(m, self.threshold, merge_classes(schema, {}, name))
        return Compression(schema.modelled, codes), merged_masks(masks), inferred

    def split(self, domain: Domain, users: float) -> Shares:
        """How the rest of mu^2, after the share `users`, is divided among the rounds."""
        first, second = in_proportion(1 - users, self.shares)
        if self.round2 is None and len(domain) == 1:  # there is no pair to choose
            first = first + second
            second = 0.0
        weights = normalised([self.weights.get(a, 1.0) for a in domain])
        ones = {a: first * w for a, w in zip(domain, weights)}
        if self.round2 is None:
            return Shares(ones, second * self.selection, second * (1 - self.selection))
        return Shares(ones, 0.0, second)

    def choose(
        self,
        session: Session,
        compression: Compression,
        ones: Sequence[Measurement],
        plan: Outline,
        zeros: StructuralZeros,
    ) -> tuple[list[Marginal], float]:
        """(marginals of round 2, share of mu^2 for measuring them). Where no pair is chosen, single
        columns are measured again."""
        if self.round2 is not None:
            return self.listed, plan.share(ROUND_2)
        choice = plan.share(CHOICE)
        second = plan.share(TREE)
        tree = spanning_tree(session, ones, choice, compression.codes, zeros)
        if pairs := [Marginal(clique=p) for p in tree if len(p) == 2]:
            return pairs, second
        again = [Marginal(clique=(a,)) for a in compression.domain] if second else []
        return again, second + choice

    def measure_round2(
        self,
        session: Session,
        compression: Compression,
        marginals: Sequence[Marginal],
        share: float,
    ) -> list[Measurement]:
        parts = [(m, part_mu(session, part)) for m, part in marginal_shares(marginals, share)]
        requests = [Request(m.clique, mu, m.query(compression.domain)) for m, mu in parts]
        return session.measure(requests, ROUND_2, recode=compression.codes) if requests else []

    def check(self, schema: Schema) -> None:
        """UsageError naming field and column where the recipe does not fit the schema."""
        for m in self.listed:
            try:
                schema.modelled.check(m.clique)
            except SchemaError as error:
                raise UsageError(f"tworound, field 'round2': {error}") from None
            for name, edges in m.edges.items():
                if edges[-1] >= schema.domain[name]:
                    raise UsageError(
                        f"tworound, field 'round2': {name!r} has {schema.domain[name]} codes"
                    )
        for field, names in (("weights", self.weights), ("keep", self.keep)):
            for name in names:
                column_of(schema, name, field)
        for region in self.regions:
            column_of(schema, region.column, "regions")
        for constraint in self.constraints:
            for name in constraint.columns:
                column_of(schema, name, "constraints")
            try:
                impossible(schema, constraint)
            except SchemaError as error:
                raise UsageError(f"tworound, field 'constraints': {error}") from None

    def clip_criteria(
        self, domain: Domain, *, public: bool = False, user: bool = True
    ) -> list[Planned]:
        """The planned marginals, with pairs of all sizes in place of those that round 2 will
        choose."""
        plan = self.outline(domain, public=public, user=user)
        lines = list(plan.measurements)
        if self.round2 is None and len(domain) > 1:
            lines += any_pair(domain, plan.share(TREE) / (len(domain) - 1))
        return lines

    def steps(self, domain: Domain, taken: float, *, public: bool = False) -> Outline:
        shares = self.split(domain, taken)
        first = [Planned((a,), x, domain[a], note=ROUND_1) for a, x in shares.first.items()]
        steps = [PlannedStep(ROUND_1, sum(shares.first.values()), tuple(first))]
        second = []
        for m, share in marginal_shares(self.listed, shares.second):
            query = m.query(domain) if m.edges else None
            cells = domain.cells(domain.check(m.clique)) if query is None else query.rows
            second.append(Planned(m.clique, share, cells, note=ROUND_2))
        if second:
            steps.append(PlannedStep(ROUND_2, shares.second, tuple(second)))
        if shares.choice:
            steps += [PlannedStep(CHOICE, shares.choice), PlannedStep(TREE, shares.second)]
        merged = (
            f"values under {self.threshold:g} standard errors in round 1 are merged before round 2"
        )
        size = f"the model has at most {self.limit:,} cells: what would make it larger is left out"
        return Outline(tuple(steps), notes=(f"{merged}; sizes are those before", size))


def normalised(weights: Sequence[float]) -> list[float]:
    """Each weight's square as a share of the sum of squares."""
    total = math.fsum(w * w for w in weights)
    return [w * w / total for w in weights]


def marginal_shares(marginals: Sequence[Marginal], second: float) -> list[tuple[Marginal, float]]:
    """Each marginal of round 2 with its share of mu^2."""
    return [(m, second * w) for m, w in zip(marginals, normalised([m.weight for m in marginals]))]


def public_frequencies(job: Job, compression: Compression) -> Mapping[str, np.ndarray]:
    """How often public data has each value of the compressed columns; nothing without public
    data."""
    if job.public is None or not compression.codes:
        return {}
    counts = job.public.marginals([(name,) for name in compression.codes])
    return {name: counts[name,].astype(float) for name in compression.codes}
