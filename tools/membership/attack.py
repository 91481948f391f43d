"""The attacks, and what they show of mu.

Law: no test tells a mu-GDP mechanism's outputs on two neighbouring data sets apart with a sum of
error rates below 2 Phi(-mu / 2) (Dong, Roth and Su 2022), and none a pure epsilon-DP mechanism's
with one below 2 / (1 + e^epsilon). Errors of `runs` runs a side are counted; the sum of two
binomials is no further spread than one of their mean (Hoeffding 1956), so a Clopper-Pearson bound
on the mean rate is a bound on mu with its confidence.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np
from scipy.stats import beta, norm

import fastdp
from tests.audit.world import quick_accountant

from .transcript import Record, recording
from .world import ALIKE, DELTA, SIZES, Case

CONFIDENCE = 0.999
AT_ONCE = 5000  # runs of one batch


@dataclass(frozen=True)
class Verdict:
    """`claim`: mu, or the epsilon of a pure run; `exact`: mu of the Gaussian answers between the
    two tables, the most that any attack on them can show; [lower, upper]: of the claim's parameter,
    as far as this attack shows it, each with CONFIDENCE."""

    attack: str
    runs: int
    errors: int
    claim: float
    lower: float
    upper: float
    pure: bool = False
    exact: float = math.nan

    @property
    def holds(self) -> bool:
        return self.lower <= self.claim

    def facts(self) -> dict:
        """For a file of results: rounded, without what is not a number."""
        plain = {k: round(v, 6) if isinstance(v, float) else v for k, v in asdict(self).items()}
        return {
            k: v for k, v in plain.items() if not (isinstance(v, float) and not math.isfinite(v))
        }


def verdict(
    attack: str, errors: int, runs: int, claim: float, pure: bool = False, exact: float = math.nan
) -> Verdict:
    """From errors in `runs` runs a side."""
    worst = beta.ppf(CONFIDENCE, errors + 1, 2 * runs - errors) if errors < 2 * runs else 1.0
    best = beta.ppf(1 - CONFIDENCE, errors, 2 * runs - errors + 1) if errors else 0.0
    if pure:
        lower, upper = (math.log((1 - p) / p) if 0 < p < 1 else math.inf for p in (worst, best))
    else:
        lower, upper = -2 * norm.ppf(worst), -2 * norm.ppf(best)
    lower, upper = max(0.0, float(lower)), max(0.0, float(upper))
    return Verdict(
        attack, runs, errors=errors, claim=claim, lower=lower, upper=upper, pure=pure, exact=exact
    )


def mistakes(without: np.ndarray, there: np.ndarray, cut: float = 0.0) -> int:
    """Wrong guesses of "the user is there" where a score is above the cut."""
    return int((without > cut).sum() + (there <= cut).sum())


def on_releases(case: Case, epsilon: float, runs: int, seed: int | None = None) -> Verdict:
    """The best attack on all answers of a session together.

    One run of the mechanism on the data with the user says which questions it asks; they are then
    answered again and again on both tables, by the samplers and at the scales that the session
    used. (That sessions add what they draw is what whole runs show.) Where all noise is Gaussian
    and mu below 2 the runs are (2 / mu)^2 times as many, which keeps the relative width of the
    bounds.
    """
    with quick_accountant(), recording(case.sides) as asked:
        pipeline(case, epsilon, 1, seed)
    pure = asked.claim is None
    errors = 0
    if asked.gaussian() and asked.exact_mu() < 2:
        runs = math.ceil(runs * (2 / asked.exact_mu()) ** 2)
    for start in range(0, runs, AT_ONCE):
        count = min(AT_ONCE, runs - start)
        scores = [np.zeros(count), np.zeros(count)]
        for number, step in enumerate(asked.steps):
            for side in (0, 1):
                name = None if seed is None else seed + (number << 48) + (side << 47) + start
                scores[side] += step.ratio(step.again(side, count, name))
        errors += mistakes(*scores)
    mu = asked.exact_mu() if asked.gaussian() else math.nan
    return verdict("releases", errors, runs, epsilon if pure else asked.claim, pure, mu)


def pipeline(case: Case, epsilon: float, side: int, seed: int | None):
    """One whole run, from the table to the rows."""
    return fastdp.synthesize(
        case.sides[side],
        case.recipe,
        epsilon,
        DELTA,
        threads=1,
        seed=seed,
        sample_seed=seed,
        progress=False,
        ignore_empty_columns=True,
        **case.options,
    )


def features(run) -> np.ndarray:
    """What the attack on rows looks at: rows in each cell, rows in the user's cell of every pair
    and column, all rows, and rows of the users who have most."""
    data = run.data
    codes = np.stack([data[name].to_numpy() for name in SIZES])
    weight = data["count"].to_numpy() if "count" in data.column_names else np.ones(codes.shape[1])
    cells = np.bincount(
        np.ravel_multi_index(codes, tuple(SIZES.values())), weight, math.prod(SIZES.values())
    )
    same = codes == np.array(ALIKE)[:, None]
    shared = [weight[same[i]].sum() for i in range(3)] + [
        weight[same[i] & same[i - 1]].sum() for i in range(3)
    ]
    most = np.zeros(3)
    if "who" in data.column_names and codes.shape[1]:
        top = np.sort(np.unique(data["who"].to_numpy(), return_counts=True)[1])[::-1][:3]
        most[: top.size] = top
    return np.concatenate([cells, shared, [weight.sum()], most])


def direction(without: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, float]:
    """(weights, cut) of the linear rule that separates two samples of features, in robust units."""
    both = np.concatenate([without, there])
    size = both.std(axis=0) + 1e-9
    a, b = without / size, there / size
    spread = (np.cov(a.T) + np.cov(b.T)) / 2 + 0.1 * np.eye(a.shape[1])
    w = np.linalg.solve(spread, b.mean(axis=0) - a.mean(axis=0))
    low, high = a @ w, b @ w
    cuts = np.quantile(np.concatenate([low, high]), np.linspace(0.02, 0.98, 97))
    cut = min(cuts, key=lambda c: mistakes(low, high, c))
    return w / size, float(cut)


def on_pipeline(case: Case, epsilon: float, runs: int, seed: int | None = None) -> list[Verdict]:
    """Whole runs: the best attack on all their releases as the mechanism asked for them, and an
    attack on the released rows alone, learnt on a third of the runs and tried on the others."""
    ratios = ([], [])
    rows = ([], [])
    last = Record()
    with quick_accountant():
        for k in range(runs):
            for side in (0, 1):
                with recording(case.sides) as last:
                    run = pipeline(
                        case, epsilon, side, None if seed is None else seed + 2 * k + side
                    )
                    rows[side].append(features(run))
                ratios[side].append(last.ratio)
    pure = last.claim is None
    claim = epsilon if pure else last.claim
    all_releases = verdict("run, releases", mistakes(*map(np.array, ratios)), runs, claim, pure)
    learn = runs // 3
    without, there = (np.array(r) for r in rows)
    w, cut = direction(without[:learn], there[:learn])
    errors = mistakes(without[learn:] @ w, there[learn:] @ w, cut)
    return [all_releases, verdict("run, rows", errors, runs - learn, claim, pure)]
