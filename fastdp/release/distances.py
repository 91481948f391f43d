"""Vectors of which one user changes every entry by at most the clip. They are
distances of marginals from a model (docs/explain/distances.md), rows that can be guessed
(docs/explain/wide-pairs.md), and contrasts of sets (docs/explain/contrasts.md)."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from msgspec import Struct

from ..domain import Clique, Columns, Domain
from ..errors import UsageError
from ..measurement import SCALE
from ..privacy import noise, scale
from ..privacy.accountant import Gaussian
from .counts import Counts
from .planned_release import Seeds, array_digest, positive, release_of
from .score_grids import score_grid
from .selection import score_weights

MOST_WEIGHT = 1 << 8
"""Weights of candidates must be below it."""


class Distances(Struct, frozen=True, eq=False):
    """Noisy distances (or numbers of rows, or contrasts), float64, in rows, and the standard error
    of each."""

    cliques: tuple[Clique, ...]
    values: np.ndarray
    sigma: np.ndarray


class DistancePlan(Struct, frozen=True, eq=False):
    """A call with its noise worked out. `sigma`: in grid units; `coef2`: w_i^2 / (sum of w^2) as
    (numerators, denominators)."""

    cliques: tuple[Clique, ...]
    weights: list[int]
    mu: float
    clip: int
    sensitivity2: int
    coef2: scale.Coef2
    sigma: np.ndarray
    question: dict
    kind: str
    count: Callable[[Counts], np.ndarray]
    """PRIVATE: the exact numbers, int64 in grid units."""

    @property
    def events(self) -> list[Gaussian]:
        return [Gaussian(self.mu)]

    @property
    def draws(self) -> int:
        return len(self.cliques)

    def noisy(self, exact: np.ndarray, seed: Seeds) -> list[np.ndarray]:
        self.check()
        return [exact + noise.gaussian(self.sigma, len(self.cliques), seed=seed(0))]

    def released(self, array: np.ndarray) -> Distances:
        return Distances(self.cliques, array / SCALE, self.sigma / SCALE)

    def check(self) -> None:
        """Raise PrivacyError unless the noise about to be drawn covers one user, entry by entry."""
        scale.check_gaussian(self.sigma, self.coef2, self.sensitivity2, self.mu)

    def lines(self, label: str) -> list[dict]:
        """The sensitivity is that of the vector scaled so that the largest weight is 1."""
        norm2 = Fraction(sum(w * w for w in self.weights), max(self.weights) ** 2)
        sensitivity = self.clip * float(norm2) ** 0.5
        rows = self.sigma / SCALE
        line = release_of(
            label=label,
            kind=self.kind,
            about=[],
            law="gaussian",
            event=Gaussian(self.mu),
            sensitivity=sensitivity,
            sigma=rows,
            count=len(self.cliques),
        )
        return [line | ({"weights": self.weights} if len(set(self.weights)) > 1 else {})]


def plan_distances(
    domain: Domain,
    clip: int,
    cliques: Sequence[Clique],
    estimates: Mapping[Clique, np.ndarray],
    mu: float,
    weights: Sequence[float] | None,
    label: str,
) -> DistancePlan:
    """Noise of a vector of distances, from public facts alone.

    One user changes each distance by at most D = clip * SCALE. So the vector whose entry i is
    scaled by c_i = w_i / sqrt(sum of w^2) changes by at most D in L2. Hence sigma_i = D / (mu c_i),
    rounded up."""
    cliques = tuple(domain.check(c) for c in cliques)
    if not cliques:
        raise UsageError(f"{label!r}: no candidates were given")
    whole = score_weights(weights, len(cliques), label, MOST_WEIGHT)
    grids = [score_grid(domain, c, estimates, label) for c in cliques]
    return _planned(
        "distances", lambda counts: counts.gaps(cliques, grids), clip, cliques, whole, mu, grids
    )


def plan_guesses(
    domain: Domain,
    clip: int,
    pairs: Sequence[Clique],
    skip: Mapping[str, int],
    mu: float,
    label: str,
) -> DistancePlan:
    """Noise of a vector of numbers of rows whose B can be guessed from A, of ordered pairs (A, B).
    `skip`: a code of each of these columns whose cells are left out.

    One user adds u(a, b) >= 0 to the weighted counts n(a, b), whole numbers, at most D = clip *
    SCALE in all. The sum over a of the largest n(a, b) then grows by at most the sum over a of the
    largest u(a, b). So it grows by 0 to D; the same holds for any part of the cells. The user may
    move all K sums at once: L2 sensitivity D sqrt(K), sigma = D sqrt(K) / mu, rounded up."""
    pairs = tuple(domain.check(p) for p in pairs)
    if not pairs or any(len(p) != 2 for p in pairs):
        raise UsageError(f"{label!r}: expected pairs of columns (A, B)")
    left_out = {name: int(code) for name, code in sorted(skip.items())}
    plan = _planned(
        "guesses", lambda counts: counts.guessed(pairs, left_out), clip, pairs, [1] * len(pairs), mu
    )
    plan.question["skip"] = left_out
    return plan


def plan_contrasts(
    domain: Domain, clip: int, sets: Sequence[Clique], mu: float, label: str
) -> DistancePlan:
    """Noise of a vector of contrasts of sets of columns, over signed codes (`signed_codes`).

    A row with weight w adds -w, 0 or w to each contrast. One user's weights add up to at most D =
    clip * SCALE, so the user moves each contrast by at most D, up or down. The user may move all K
    of them at once: L2 sensitivity D sqrt(K), sigma = D sqrt(K) / mu, rounded up. Proof:
    docs/explain/contrasts.md."""
    sets = tuple(domain.check(c) for c in sets)
    if not sets or not all(sets):
        raise UsageError(f"{label!r}: expected sets of one column or more")
    return _planned(
        "contrasts", lambda counts: counts.contrasts(sets), clip, sets, [1] * len(sets), mu
    )


def signed_codes(domain: Domain, signs: Columns, label: str) -> dict[str, np.ndarray]:
    """The recoding by which contrasts are counted: code -> 0, 1 or 2, for the signs -1, 0 and 1.
    UsageError for other signs: sensitivity rests on none being larger than 1."""
    codes = {}
    for name, sign in signs.items():
        domain.check((name,))
        sign = np.asarray(sign)
        if sign.shape != (domain[name],) or not np.isin(sign, (-1, 0, 1)).all():
            raise UsageError(
                f"{label!r}: expected -1, 0 or 1 for each of the {domain[name]} codes of {name!r}"
            )
        codes[name] = sign.astype(np.int64) + 1
    return codes


def _planned(
    kind: str,
    count: Callable[[Counts], np.ndarray],
    clip: int,
    cliques: tuple[Clique, ...],
    whole: list[int],
    mu: float,
    grids: Sequence[np.ndarray] = (),
) -> DistancePlan:
    """The plan of a vector of which one user changes every entry by at most the clip, scaled by its
    weights."""
    cost = positive(mu, "mu")
    sensitivity2 = (clip * SCALE) ** 2
    coef2 = squared_shares(whole)
    sigma = scale.row_sigmas(scale.gaussian_sigma(sensitivity2, cost), coef2)
    sigma = np.broadcast_to(np.asarray(sigma, np.float64), (len(cliques),))
    question = {
        "kind": kind,
        "clip": clip,
        "mu": cost,
        "cliques": [list(c) for c in cliques],
        "estimates": [array_digest(g) for g in grids],
        "weights": whole,
    }
    plan = DistancePlan(
        cliques=cliques,
        weights=whole,
        mu=cost,
        clip=clip,
        sensitivity2=sensitivity2,
        coef2=coef2,
        sigma=sigma,
        question=question,
        kind=kind,
        count=count,
    )
    plan.check()
    return plan


def squared_shares(weights: Sequence[int]) -> scale.Coef2:
    """w_i^2 / (sum of w^2), exactly. Scaled by the square roots of these, the vector of distances
    has the L2 sensitivity of a single distance."""
    total = sum(w * w for w in weights)
    return np.array([w * w for w in weights], np.int64), np.full(len(weights), total, np.int64)
