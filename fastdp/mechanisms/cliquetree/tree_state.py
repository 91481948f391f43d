"""The model of a run of `cliquetree` while it grows, one screening round after another."""

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from msgspec.structs import replace

from ..._util.threads import resolve
from ...domain import Clique, Domain
from ...measurement import Measurement, Request
from ...model.graphical_model import Model
from ...model.marginals import marginals
from ...release.gateway import Session
from ...significance import SURE, drawn_towards, threshold
from ..base import Job
from ..plans import DISTANCES
from ..shared import screening
from ..shared.code_partitions import CODES, Key, Partition, composed
from ..shared.merged_codes import MAX_CANDIDATES, Merged, all_pairs
from ..shared.one_ways import NOISE, effective_cells, measure_ones, part_mu
from ..shared.prior_screening import PublicPriors
from ..shared.public_prior import PublicMarginals
from ..shared.screening import Candidate, ScreeningResult, Structure
from ..shared.steering import Steering
from . import dense_tables, target_sets, two_valued
from .beyond_independence import telling
from .budget_shares import Shares
from .resolutions import (
    ModelCodes,
    blank_codes,
    group_count,
    group_maps,
    ordered,
)
from .target_sets import ModelRows, SetsOfTarget
from .trends import Trends, contained, few_groups, summed
from .value_grouping import grouped, row_bounds

# Constants, chosen on adult, ma2019, the coded taxi table and generated tables
# (docs/explain/cliquetree.md).
SCREENING_CELLS = 1 << 23
"""A screening round leaves out candidates whose marginal would need a table of more cells than this
over merged codes (64 MB)."""
GROWTH = 10
"""The limit on cells grows by this factor from round to round, so that fits between rounds are of
smaller models. Without it, adult and acs-ma take 18 % more processor time at epsilon 10, and no error
differs (`python -m bench.tune --without GROWTH --epsilon 10 --tables adult acs-ma`)."""
CHEAP = 0.25
"""In the last round, a candidate that others seem to explain is still measured if its noise costs
less than this part of its distance. No later round could tell that they did not. Without it, pairs are
1.8 ± .8 % worse where columns follow (`python -m bench.tune --of-class --without CHEAP`)."""
LEAST_PER_CELL = 1.0
"""Rows per cell below which a pair is measured over groups wherever it has any: most of its distance
over all codes is then chance. Without it, four columns of 1,000 codes and correlations of .8 lose them
(`python -m bench.tune --epsilon 1 --without LEAST_PER_CELL --tables fine fine-two`)."""
MAX_TRIPLE_CELLS = 100_000
"""Cells of the largest triple, or larger set, that is a candidate."""


class TreeSettings(Protocol):
    """What growing a tree reads of the mechanism's config."""

    @property
    def limit(self) -> int: ...
    @property
    def stop(self) -> str: ...
    def wanted(self, domain: Domain) -> Any: ...
    def reported_items(self, domain: Domain) -> Any: ...


class CliqueTreeState:
    """The model between two screening rounds: what was measured, and what is left to spend."""

    def __init__(
        self,
        config: TreeSettings,
        session: Session,
        job: Job,
        merged: Merged,
        plan: Shares,
        public: PublicMarginals | None,
        first: ScreeningResult | None = None,
        dependent: Collection[str] = (),
    ):
        self.dependent = dependent  # columns that are drawn given others, beside the model
        self.dense: dense_tables.DenseModel | None = None  # where hidden factors are better
        self.by_contrasts: Model | None = None  # the finished model of a table of two values
        self.contrasts: dict[Clique, tuple[float, float]] = {}  # what was released for it
        self.first = first  # the first round's result, where it was released before
        self.independent = {} if first is None else distances_of(first)
        self.priors = None if public is None else PublicPriors(public, session, merged.codes)
        self.config = config
        self.session = session
        self.job = job
        self.merged = merged
        self.plan = plan
        self.workload = config.wanted(session.domain)
        self.pairs = all_pairs(merged.domain, MAX_CANDIDATES, config.limit)
        self.measured: list[Measurement] = []
        self.followed: list[Measurement] = []  # those that the finished model follows
        self.ones_at_last: list[Measurement] = []  # where no marginal was worth measuring
        self.beside: list[Measurement] = []  # of hidden classes; the tree does not follow them
        self.batches: list[list[list[str]]] = []
        self.model: Model | None = None
        self.model_codes = ModelCodes(merged, {})  # those that `model` was fitted over
        self.held: dict[Key, Candidate] = {}
        self.precision: dict[Key, float] = {}  # share of mu^2 spent on each marginal so far
        self.unspent = 0.0  # share of mu^2 left over by batches that had nothing to measure
        self.frequent: dict[Clique, Partition] = {}  # see `value_grouping`
        self.screened: set[Clique] = set()
        self.trends = Trends()
        self.groups = Partition("groups of neighbours", {})
        self.alone = {} if self.workload.has_sets else ordered(merged, session.schema)
        self.blank = blank_codes(merged, session.schema)
        if plan.batches:
            count = group_count(merged.total, self.sigma(math.fsum(plan.batches)))
            maps = group_maps(merged, self.alone, count, self.blank)
            self.groups = replace(self.groups, maps=maps)

    def round(self, number: int) -> None:
        """One screening round, its batch, and the fit."""
        share = self.unspent + self.plan.batches[number]
        screened = number == 0 and self.first is not None
        if not self.pairs and not screened:
            share += self.plan.screening
        last = number == len(self.plan.batches) - 1
        if last:
            share -= self.find_target_sets(share)
        result = self.screen(number) if self.pairs else None
        if number == 0 and result is not None and not self.independent:
            self.independent = distances_of(result)
        batch: list[Candidate] = []
        if result is not None:
            self.learn(result)
        if last and result is not None:
            self.dense, spent = dense_tables.decided(self, result, share)
            share -= spent
            if self.dense is not None:
                self.batches.append([])
                return
        if result is not None and result.cliques:
            batch, share = self.choose(number, share, result)
        self.held |= {c.key: c for c in batch}
        self.unspent = 0.0 if self.held else share
        if last and result is not None:
            share -= self.measure_trends(result, share)
        if last and not self.held:
            self.ones_at_last = measure_ones(
                self.session, share, "1-ways at last", self.workload.weight
            )
            self.merged = self.merged.with_ones(self.ones_at_last)
        parts = (
            screening.divide(list(self.held.values()), self.precision, share) if self.held else {}
        )
        whole = math.fsum(parts.values())
        requests = [
            self.request(k, part_mu(self.session, share * part / whole))
            for k, part in parts.items()
        ]
        if requests:
            label = f"batch {number + 1}"
            self.measured += self.session.measure(requests, label, recode=self.merged.codes)
        for key, part in parts.items():
            self.precision[key] = self.precision.get(key, 0.0) + share * part / whole
        self.batches.append([list(clique) for clique, _ in parts])
        if (parts or (self.priors is not None and self.priors.taken)) and not last:
            self.refit()

    def measure_contrasts(self) -> bool:
        """Where columns have two values, measures contrasts in place of all rounds; whether it did."""
        names = two_valued.names_of(self)
        plan = self.plan
        if not names or not plan.batches:
            return False
        table = two_valued.TwoValuedTable(self, names)
        rounds = plan.screening * len(plan.batches) + math.fsum(plan.batches)
        table.spend(plan.again + plan.open + rounds)
        self.by_contrasts, self.merged = table.finished()
        self.contrasts = table.released
        self.screened = set(self.pairs)
        return True

    def find_target_sets(self, share: float) -> float:
        """Looks for sets of the target and three or four columns (`target_sets`), which are then
        held; the share of mu^2 that it costs. None are looked for where the batch's share is
        small."""
        target = self.workload.target
        merged = self.merged
        if target is None or merged.domain[target] < 2 or share < 2 * target_sets.reserved():
            return 0.0
        wide = [a for a, n in merged.domain.items() if n > 1]
        codes = self.model_codes
        ones = codes.final().ones_shape
        cuts = {a: target_sets.halves(ones[a]) for a in wide}
        halves = {a: cut[codes.groups[a]] if a in codes.groups else cut for a, cut in cuts.items()}
        threads = resolve(self.job.threads)
        rows = ModelRows.drawn(self.model, ones, cuts, merged.total, self.job.seed, threads)
        two = Partition("halves", halves)
        recode = composed(merged.codes, halves)
        recode = {a: recode[a] for a in wide}
        search = SetsOfTarget(self.session, merged.domain, target, recode, rows)
        for found in search.search():
            if not self.make_room(found.clique):
                continue
            cells = max(1.0, effective_cells(found.expected, self.sigma(share)))
            weight = self.workload.weight(found.clique)
            c = Candidate(found.clique, found.distance, cells, weight, partition=two)
            self.held[c.key] = c
        return search.spent

    def make_room(self, clique: Clique) -> bool:
        """Whether the junction tree has room for a set. Where columns hardly depend on each other, batches
        may have filled it with what noise found. Then the marginals that were nearest to the model make
        way, as few as will do: their answers stay beside the model."""
        limit = self.config.limit
        if self.structure([])[1].cells(clique) <= limit:
            return True
        order = sorted(self.held.values(), key=lambda c: -c.weight * c.distance)

        def too_large(count: int) -> bool:
            groups = self.over_groups_given([c.key for c in order[:count]])
            cliques = [*self.merged.zeros, *(c.clique for c in order[:count])]
            return Structure(self.merged.domain.recoded(groups), cliques).cells(clique) > limit

        count = bisect_left(range(1, len(order) + 1), True, key=too_large)
        if too_large(0):
            return False
        gone = {c.clique for c in order[count:]}
        self.held = {key: c for key, c in self.held.items() if key[0] not in gone}
        self.precision = {key: p for key, p in self.precision.items() if key[0] not in gone}
        self.beside += [m for m in self.measured if m.clique in gone]
        self.measured = [m for m in self.measured if m.clique not in gone]
        self.refit()
        return True

    def refit(self) -> None:
        """Fits the model to what is measured so far."""
        self.model = self.fit("noise", self.model)
        self.model_codes = self.codes

    @property
    def codes(self) -> ModelCodes:
        """The codes that a model of all held marginals has: 1-ways alone are over all codes. While
        a round adds marginals, the current model still has `model_codes`."""
        return ModelCodes(self.merged, self.over_groups_given(self.held) if self.held else {})

    def over_groups_given(self, keys: Collection[Key]) -> dict[str, np.ndarray]:
        """The groups of columns that the model has over groups if these marginals are measured;
        none where public data says something about all codes."""
        if self.priors is not None:
            return {}
        fine = {a for clique in self.merged.zeros for a in clique}
        asked: dict[str, list[Partition]] = {}
        for clique, partition in keys:
            for a in clique:
                asked.setdefault(a, []).append(partition)
        return {
            a: groups
            for a, groups in self.groups.maps.items()
            if a not in fine and all(p.keeps_together(a, groups) for p in asked.get(a, ()))
        }

    def settle(self) -> None:
        """The codes of the finished model become the merged codes, also of what is measured."""
        if self.dense is not None:
            self.merged = self.dense.merged
            self.groups = replace(self.groups, maps={})
            return
        codes = self.codes
        self.measured = [codes.measurement(m) for m in self.measured]
        self.followed = [codes.measurement(m) for m in self.followed]
        self.merged = codes.final()
        self.groups = replace(self.groups, maps={})

    def request(self, key: Key, mu: float) -> Request:
        """The request for this marginal. With a workload, values that noise would make
        indistinguishable in it share a code (see `value_grouping`)."""
        clique, partition = key
        if partition is CODES and len(clique) > 1 and self.workload.items:
            partition = self.frequent_values(clique, self.session.clip / mu)
        return Request(clique, mu, partition.query(clique, self.merged.domain.shape(clique)))

    def frequent_values(self, clique: Clique, sigma: float) -> Partition:
        """The values that noise `sigma` tells apart in this marginal; decided where it is asked for
        the first time."""
        if clique not in self.frequent:
            domain = self.merged.domain
            ones = self.merged.ones_shape
            subsets = list(combinations(clique, len(clique) - 1))
            if len(clique) == 2 or self.model is None:
                bounds = [ones[a] for a in clique]
            else:
                codes = self.model_codes
                tables = marginals(self.model, subsets, resolve(self.job.threads))
                estimates = {c: codes.expanded(c, table) for c, table in tables.items()}
                bounds = row_bounds(clique, domain, estimates)
            self.frequent[clique] = grouped(clique, domain, bounds, ones, sigma, self.blank)
        return self.frequent[clique]

    def screen(self, number: int) -> ScreeningResult:
        """Releases noisy distances of the candidates from the model."""
        merged = self.merged
        cliques = self.pairs if number == 0 else [*self.pairs, *self.larger()]
        if self.model is None and merged.zeros:  # a first model of 1-ways and constraints
            self.refit()
        if self.model is None:
            estimates = merged.independent(cliques)
        else:
            estimates = marginals(self.model, cliques, resolve(self.job.threads), SCREENING_CELLS)
            codes = self.model_codes
            estimates = {c: codes.expanded(c, table) for c, table in estimates.items()}
        cliques = [c for c in cliques if c in estimates]
        self.screened.update(cliques)
        if number == 0 and self.first is not None:
            return self.first.over(estimates)
        weights = [self.workload.weight(c) for c in cliques]
        again = [c for c in cliques if self.asked_over_groups(c)]
        # So that all distances have the same noise.
        part = self.plan.screening / (len(cliques) + len(again))
        mu = part_mu(self.session, part * len(cliques))
        label = f"screening {number + 1}"
        released = self.session.distances(
            cliques, estimates, mu=mu, label=label, weights=weights, recode=merged.codes
        )
        grouped = {}
        if again:
            mu = part_mu(self.session, part * len(again))
            over_groups = composed(merged.codes, self.groups.maps)
            coarse = {c: self.groups.sums(c, estimates[c]) for c in again}
            over = self.session.distances(
                again, coarse, mu=mu, label=f"{label}, over groups", recode=over_groups
            )
            grouped = dict(zip(again, over.values.tolist()))
        values, sigma = released.values.tolist(), released.sigma.tolist()
        return ScreeningResult(cliques, estimates, values, sigma, weights, grouped)

    @property
    def left_out(self) -> list[Clique]:
        """Pairs that were no candidates in any round: too large for the model, or too many."""
        sizes = self.merged.domain
        columns = [a for a in self.session.domain if sizes[a] > 1]
        return [p for p in combinations(columns, 2) if p not in self.screened]

    def asked_over_groups(self, clique: Clique) -> bool:
        """Whether the distance over groups is released too: of every pair that has groups and was not
        measured over all codes."""
        return (
            len(clique) == 2 and (clique, CODES) not in self.held and self.groups.coarsens(clique)
        )

    def sigma(self, share: float) -> float:
        """The noise of a marginal if as many as there are columns are measured for this share of
        mu^2."""
        return math.sqrt(len(self.merged.domain) / (share * self.unit))

    @property
    def unit(self) -> float:
        """1 / sigma^2 that all of mu^2 buys."""
        return (part_mu(self.session, 1.0) / self.session.clip) ** 2

    def accounted(self, result: ScreeningResult) -> float:
        """The part of the columns that pairs account for, by the first screening round."""
        distances, sigma = (dict(zip(result.cliques, v)) for v in (result.distances, result.sigma))
        return screening.accounted(distances, sigma, self.merged.noise_tv, self.merged.total)

    def learn(self, result: ScreeningResult) -> None:
        """What answers miss, by released distances.

        A batch was divided by the noise that was foreseen. Now the model that follows the answers has a
        released distance from each measured marginal. What an answer misses is drawn towards that, as far as
        the noise of distances does not explain the difference. The effective cells of a marginal become those
        in which noise would make as large an error. So a marginal that is farther off than foreseen, since
        noise hides its cells, gets more of what is left."""
        missed = {key: d for key, d in self.missed(result).items() if self.precision.get(key)}
        if self.priors is not None or not missed:
            return
        keys = list(missed)
        sigma = np.array([1 / math.sqrt(self.precision[key] * self.unit) for key in keys])
        foreseen = np.array([self.held[key].noise(s) for key, s in zip(keys, sigma)])
        variances = np.array([(result.noise / self.held[key].weight) ** 2 for key in keys])
        found = drawn_towards(foreseen, np.array(list(missed.values())), variances)
        for key, error, s in zip(keys, found, sigma):
            cells = max(1.0, float(error) / (NOISE * s))
            self.held[key] = replace(self.held[key], cells=cells)

    def missed(self, result: ScreeningResult) -> dict[Key, float]:
        """The released distance of the model from each measured marginal, over the codes that it was
        measured over."""
        fine = dict(zip(result.cliques, result.distances))
        out = {}
        for key in self.held:
            clique, partition = key
            known = result.grouped if partition is self.groups else fine
            if clique in known and (partition in (self.groups, CODES)):
                out[key] = known[clique]
        return out

    def after_batch(self, share: float, result: ScreeningResult) -> dict[Clique, float]:
        """How far the model is expected to be from each pair if what is measured is measured again for this
        `share`: errors of answers fall with the root of their precision. A batch may do better by new
        pairs. But these are chosen by the same distances, so what they seem to gain is larger than what
        they gain. What answers miss was not chosen by these."""
        known = zip(result.cliques, result.distances)
        out: dict[Clique, float] = {p: d for p, d in known if len(p) == 2}
        spent = math.fsum(self.precision.values())
        part = 1 - math.sqrt(spent / (spent + share)) if spent else 0.0
        for (clique, _), off in self.missed(result).items():
            if out.get(clique, 0.0) > 0:
                off = min(max(off, 0.0), out[clique])
                out[clique] = math.sqrt(out[clique] ** 2 - off**2 + ((1 - part) * off) ** 2)
        return out

    def choose(
        self, number: int, share: float, result: ScreeningResult
    ) -> tuple[list[Candidate], float]:
        """(the candidates to measure, what is left of the `share` of mu^2 once public priors are
        screened). Usable priors whose clique keeps the junction tree within the limit are taken
        into the fit."""
        if self.priors is not None:
            label = f"screening {number + 1}, public priors"
            weight = dict(zip(result.cliques, result.weights))
            share -= self.priors.screen(
                result.estimates, weight, result.noise, self.plan.screening, label
            )
        about = self.sigma(share)
        held = list(self.held.values())
        spent = math.fsum(self.precision.values()) * self.unit
        left = self.sigma(share + math.fsum(self.plan.batches[number + 1 :]))
        good = screening.worthwhile(self.scored(result, about, left), about, left)
        if self.priors is None and not self.workload.has_sets:
            good = [c for c in good if self.tells(c, result, left)]
        if number:
            last = number == len(self.plan.batches) - 1
            follows = screening.following(result.estimates)
            good = screening.unexplained(good, follows, about, CHEAP if last else 0.0)
        batch = self.within_limit(number, good)
        if self.priors is not None:
            self.priors.take([c.clique for c in batch])
        fresh = [c for c in batch if c.key not in self.held and c.gain(about) > 0]
        return screening.affordable_batch(fresh, held, spent, share * self.unit), share

    def tells(self, c: Candidate, result: ScreeningResult, sigma: float) -> bool:
        """Whether an answer with this noise is expected to be followed in the end."""
        return screening.tells(c, self.table(result, c), sigma, self.merged.total)

    def scored(
        self,
        result: ScreeningResult,
        sigma: float,
        left: float,
    ) -> list[Candidate]:
        """The candidates of a screening round, for measurements at noise `sigma`; `left`: the noise when
        later batches have measured them again."""
        total = self.merged.total
        estimates = result.estimates
        weight = dict(zip(result.cliques, result.weights))
        scored = screening.candidates(
            result.cliques, estimates, result.distances, sigma, total, weight
        )
        if self.priors is not None:
            scored = self.priors.improved(scored, estimates, result.noise, sigma, total)
        return [self.best_resolution(c, result, sigma, left) for c in scored]

    def table(self, result: ScreeningResult, c: Candidate) -> np.ndarray:
        """What the model says about a marginal."""
        return c.partition.sums(c.clique, result.estimates[c.clique])

    def best_resolution(
        self,
        fine: Candidate,
        result: ScreeningResult,
        sigma: float,
        left: float,
    ) -> Candidate:
        """The candidate over groups, where that leaves the smaller error over all codes, or where
        the one over all codes is not worth measuring. Otherwise it is unchanged. Beside other
        candidates it is worth what it tells of its groups, without what stays inside them. With
        less than a row per cell, most of the distance over all codes is chance, which no answer
        removes: then groups are taken."""
        clique = fine.clique
        if clique not in result.grouped or fine.explained or not self.groups.coarsens(clique):
            return fine
        table = {clique: self.groups.sums(clique, result.estimates[clique])}
        distance = [result.grouped[clique]]
        weight = {clique: fine.weight}
        (coarse,) = screening.candidates(
            [clique], table, distance, sigma, self.merged.total, weight
        )
        between = min(max(coarse.distance, 0.0), fine.distance)
        within = math.sqrt(fine.distance**2 - between**2)
        coarse = replace(coarse, distance=between, within=within, partition=self.groups)
        found = [
            screening.findings(c, self.table(result, c), left, self.merged.total)
            for c in (fine, coarse)
        ]
        better = found[0] > found[1]
        worth = better and fine.gain(sigma) > 0
        worth &= result.estimates[clique].size * LEAST_PER_CELL <= self.merged.total
        return fine if worth else replace(coarse, within=0.0)

    def within_limit(self, number: int, good: list[Candidate]) -> list[Candidate]:
        """Those of the candidates, in this order, that keep the junction tree within the round's
        limit. The first round takes a forest of pairs, within the whole limit, then what public
        data explains."""
        limit = self.config.limit // GROWTH ** (len(self.plan.batches) - 1 - number)
        orders = [(good, limit)]
        if number == 0:
            orders = [
                (screening.forest(good, self.merged.domain), self.config.limit),
                ([c for c in good if c.explained > 0], limit),
            ]
        batch: dict[Clique, Candidate] = {}
        groups, structure = self.structure([])
        for order, most in orders:
            most = max(most, structure.cells())
            for c in order:
                if c.clique in batch:
                    continue
                larger = c.partition is not self.groups and any(a in groups for a in c.clique)
                wider = self.structure([*batch.values(), c]) if larger else (groups, structure)
                unchanged = not larger and structure.joined(c.clique)
                if unchanged or wider[1].fits(most, c.clique):
                    groups, structure = wider
                    structure.add(c.clique)
                    batch[c.clique] = c
        return list(batch.values())

    def structure(self, batch: Sequence[Candidate]) -> tuple[Mapping[str, np.ndarray], Structure]:
        """(columns over groups, junction tree) of the model with these candidates."""
        groups = self.over_groups_given([*self.held, *(c.key for c in batch)])
        # The last model's cliques hold all that was measured, and the zeros.
        model = [] if self.model is None else self.model.cliques
        held = [clique for clique, _ in self.held]
        return groups, Structure(
            self.merged.domain.recoded(groups), [*model, *held, *(c.clique for c in batch)]
        )

    def larger(self) -> list[Clique]:
        """Candidates of three columns or more: triples inside the model's cliques, and sets of a
        workload."""
        domain = self.merged.domain
        held = self.model.cliques if self.model is not None else []
        coarse = self.model_codes.groups
        sets: set[Clique] = {
            t for q in held for t in combinations([a for a in q if a not in coarse], 3)
        }
        sets |= set(self.workload.larger(domain))
        fine = [c for c in sets if min(domain.shape(c)) > 1 and domain.cells(c) <= MAX_TRIPLE_CELLS]
        room = max(0, MAX_CANDIDATES - len(self.pairs))
        order = {a: i for i, a in enumerate(domain)}
        return sorted(fine, key=lambda c: (-self.workload.weight(c), [order[a] for a in c]))[:room]

    def measure_trends(self, result: ScreeningResult, share: float) -> float:
        """Releases trends of pairs that are not measured; the share of mu^2 that they cost."""
        codes = self.codes
        held = [clique for clique, _ in self.held]
        self.trends = Trends(few_groups(codes, self.alone, self.blank))
        distances = dict(zip(result.cliques, result.distances)) | dict(result.grouped)
        grouped_columns = self.trends.groups.keys()
        pairs = [p for p in self.pairs if p in distances and grouped_columns >= set(p)]
        weight = self.workload.weight
        left = {p: weight(p) * distances[p] for p in pairs if not contained(p, held)}
        return self.trends.release(self.session, codes, left, share, self.unit, self.merged.total)

    def last_fit(self) -> Model:
        """The finished model. It also sees sums of measured pairs, and trends that its cliques can
        hold. Of a dense table it is that of hidden factors."""
        if self.by_contrasts is not None:
            return self.by_contrasts
        if self.dense is not None:
            return self.dense.model
        told = self.told
        self.followed = told
        cliques = [*(m.clique for m in told), *self.merged.zeros]
        sums = summed(told, self.trends.groups, self.codes)
        return self.fit(
            self.config.stop, None, [*sums, *self.trends.in_cliques(self.codes, cliques)]
        )

    def steering(self, model: Model) -> Steering:
        """What the finished model lacks of the trends that its cliques do not hold."""
        return self.trends.steering(
            self.codes.final(), self.merged, self.alone, model, self.job.threads
        )

    def fit(self, stop: str, start: Model | None, more: Sequence[Measurement] = ()) -> Model:
        codes = self.codes
        measurements = [*map(codes.measurement, (*self.merged.ones, *self.told)), *more]
        if self.priors is not None:
            measurements += self.priors.measurements(self.measured)
        warm = start if start is not None and start.domain == codes.domain else None
        return self.job.fit(
            codes.domain,
            measurements,
            stop=stop,
            warm_start=warm,
            total=self.merged.fitted_total,
            zeros=self.merged.zeros,
        )

    @property
    def told(self) -> list[Measurement]:
        """What a fit sees of what is measured: of answers that say no more than independent columns
        do, their sums. With public data, what is not measured has its prior, so all answers stay."""
        return self.measured if self.priors is not None else telling(self.measured, self.merged)

    def workload_distances(self, model: Model) -> dict[Clique, tuple[float, float]]:
        """How far the finished model is from the workload's items."""
        items = self.config.reported_items(self.session.domain)
        return self.distances(model, items, self.plan.report, "errors of the workload")

    def final_distances(self, model: Model) -> dict[Clique, tuple[float, float]]:
        """How far the finished model is from all pairs that it follows no answer about. Where
        there are none, it is from all pairs, and without pairs from single columns. A model of hidden
        factors follows no measured pair, so it is from all pairs."""
        whole = [m.clique for m in self.followed if m.query is None or self.workload.items]
        held = {frozenset(p) for clique in whole for p in combinations(clique, 2)}
        open_pairs = [p for p in self.pairs if frozenset(p) not in held]
        sets = open_pairs or self.pairs or [(a,) for a in self.merged.domain]
        share = self.plan.final
        return self.distances(model, sets, share, DISTANCES) if share else {}

    def worse_than_independent(self, final: Mapping[Clique, tuple[float, float]]) -> bool:
        """Whether the finished model is farther than independent columns from the pairs that it follows
        no answer about, beyond noise and beyond its `lead` elsewhere. `final`: its released distances.

        Let A and B be the mean distances of the model and of independent columns from these n pairs, s
        the standard error of A - B if they were any n pairs. They are those of K that the run chose, by B's
        noise as well. With noise sigma each, the mean of n chosen ones of K is off by at most
        b = sigma (K / n) phi(Phi^-1(n / K)), the mean of the n smallest. The model is used unless A - B
        seems larger than SURE s + b + lead / n. The noise of A is drawn last, so whatever was chosen before,
        what is used has in expectation a mean distance of at most B + SURE s + 2 b + .001 s + lead / n.
        Pairs whose codes have changed in between are not compared."""
        alone = self.of_independent
        both = [c for c in final if c in alone]
        other = self.workload.items or self.dense is not None or self.by_contrasts is not None
        if other or not both:
            return False
        more = math.fsum(final[c][0] - alone[c][0] for c in both)
        noise = math.hypot(*(x[c][1] for c in both for x in (final, alone)))
        normal = NormalDist()
        part = len(both) / len(self.independent)
        by_choice = normal.pdf(normal.inv_cdf(part)) if part < 1 else 0.0
        by_choice *= len(self.independent) * max(alone[c][1] for c in both)
        return more > SURE * noise + by_choice + self.lead

    @property
    def lead(self) -> float:
        """By how many rows independent columns are surely farther than the model from the pairs that it
        follows answers about: what the first round says beyond its noise, less the noise of an answer in
        all of its cells. Where little is known of many pairs it is 0."""
        alone = self.of_independent
        above = threshold(len(self.independent))
        noise: dict[Clique, float] = {}
        for m in self.followed:
            if m.clique in alone and m.query is None and np.ndim(m.sigma) == 0:
                error = NOISE * float(m.sigma) * m.values.size
                noise[m.clique] = min(error, noise.get(m.clique, math.inf))
        leads = (alone[c][0] - above * alone[c][1] - error for c, error in noise.items())
        return math.fsum(max(0.0, lead) for lead in leads)

    @property
    def of_independent(self) -> dict[Clique, tuple[float, float]]:
        """Distances of independent columns, with standard errors: the first round's."""
        shape = self.merged.domain.shape
        return {c: d for (c, own), d in self.independent.items() if own == shape(c)}

    def independent_columns(self) -> Model:
        """The model of single columns alone."""
        self.followed = []
        return self.merged.fit(self.job, list(self.merged.ones), stop="noise")

    def distances(
        self, model: Model, cliques: Sequence[Clique], share: float, label: str
    ) -> dict[Clique, tuple[float, float]]:
        """Noisy L1 distances of a model from the data, in rows, with standard errors: one step, for
        a share of mu^2. Sets whose marginal would be too large are left out."""
        small = [c for c in cliques if self.merged.domain.cells(c) <= SCREENING_CELLS]
        estimates = marginals(model, small, resolve(self.job.threads), SCREENING_CELLS)
        if not estimates:
            return {}
        mu = part_mu(self.session, share)
        codes = self.merged.codes
        released = self.session.distances(
            list(estimates), estimates, mu=mu, label=label, recode=codes
        )
        return dict(zip(estimates, zip(released.values.tolist(), released.sigma.tolist())))


def distances_of(
    result: ScreeningResult,
) -> dict[tuple[Clique, tuple[int, ...]], tuple[float, float]]:
    """(distance, standard error) of each candidate over codes of these numbers."""
    released = zip(result.cliques, result.distances, result.sigma)
    return {(c, result.estimates[c].shape): (d, s) for c, d, s in released}
