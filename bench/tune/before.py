"""Rules that a principle replaced, and one that was tried: to measure what the change did."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from fastdp import significance
from fastdp.measurement import Measurement
from fastdp.mechanisms.shared import merged_codes
from fastdp.mechanisms.shared.number_tails import with_tails
from fastdp.mechanisms.shared.public_prior import PriorAssessment
from fastdp.mechanisms.shared.screening import (
    AskedPairs,
    Candidate,
    Follows,
    ScreeningResult,
)
from fastdp.significance import onto_simplex

BELIEF = 1.0
LEAST_EXPLAINED = 0.2
"""What `by_moments` asked of a prior: so many standard errors, and this part."""
SHAPE_OF = merged_codes.shape_of
"""As it is, also where an ablation has put another in its place."""


def shrunk_to_uniform(
    ones: Sequence[Measurement], total: float = 0.0, ordered: Collection[str] = ()
) -> list[Measurement]:
    """1-ways are clear at 4 standard deviations; of others 1.25 times noise is taken off."""
    away = [np.asarray(m.values, np.float64) - np.mean(m.values) for m in ones]
    z = np.array([np.square(d).sum() / np.mean(m.variances) for d, m in zip(away, ones)])
    degrees = np.array([m.values.size - 1.0 for m in ones])
    weak = z <= degrees + 4.0 * np.sqrt(2 * degrees)
    factor = max(0.0, 1 - 1.25 * degrees[weak].sum() / max(z[weak].sum(), 1e-9))
    return [
        Measurement(m.clique, np.mean(m.values) + factor * d, m.sigma, label=m.label) if w else m
        for m, d, w in zip(ones, away, weak)
    ]


def weak_to_uniform(
    ones: Sequence[Measurement], total: float = 0.0, ordered: Collection[str] = ()
) -> list[Measurement]:
    """1-ways whose squared differences do not stand out of noise share one spread in units of it; others
    are as they were measured."""
    away = [np.asarray(m.values, np.float64) - np.mean(m.values) for m in ones]
    z = np.array([np.square(d).sum() / np.mean(m.variances) for d, m in zip(away, ones)])
    degrees = np.array([max(m.values.size - 1.0, 1e-9) for m in ones])
    weak = ~significance.stands_out((z - degrees) / np.sqrt(2 * degrees), len(ones))
    spread = max(0.0, z[weak].sum() / max(degrees[weak].sum(), 1e-9) - 1)
    part = spread / (1 + spread)
    return [
        Measurement(m.clique, np.mean(m.values) + part * d, m.sigma, label=m.label) if w else m
        for m, d, w in zip(ones, away, weak)
    ]


def projected(
    one: Measurement,
    rare: np.ndarray,
    total: float,
    numbers: np.ndarray | None = None,
    expected: np.ndarray | None = None,
) -> np.ndarray:
    """Row counts by projection: where most rows have rare values, these are drawn to their mean."""
    if expected is not None:
        one = Measurement(one.clique, expected, one.sigma, label=one.label)
    return SHAPE_OF(one, rare, total, numbers)


def shape_of(
    one: Measurement,
    rare: np.ndarray,
    total: float,
    numbers: np.ndarray | None = None,
    expected: np.ndarray | None = None,
) -> np.ndarray:
    """Counts of rare values drawn to their mean by James and Stein's factor."""
    drawn = np.array(one.values, np.float64)
    count = int(rare.sum())
    if numbers is not None:
        errors = np.sqrt(np.broadcast_to(one.variances, drawn.shape))
        tails = np.array(drawn)
        tails[numbers] = with_tails(drawn[numbers], errors[numbers])
        drawn = np.where(rare, tails, drawn)
    if count > 3 and 2 * drawn[~rare].sum() < total:
        noise = float(np.broadcast_to(one.variances, drawn.shape)[rare].mean())
        mean = drawn[rare].mean()
        spread = float(np.square(drawn[rare] - mean).sum())
        factor = max(0.0, 1 - (count - 3) * noise / spread) if spread > 0 else 0.0
        drawn[rare] = mean + factor * (drawn[rare] - mean)
    return onto_simplex(drawn, total)


def posterior_means(
    values: np.ndarray, sigma: np.ndarray, least: float = -math.inf, most: float = math.inf
) -> np.ndarray:
    """True values on 64 points from the smallest to the largest number."""
    values = np.asarray(values, np.float64)
    sigma = np.asarray(sigma, np.float64)
    if values.size < 2 or not (sigma > 0).all():
        return values.copy()
    ends = np.clip([values.min(), values.max()], least, most)
    grid = np.linspace(ends[0], ends[1], 64)
    z = (values[:, None] - grid) / sigma[:, None]
    likelihood = np.exp(-0.5 * (np.square(z) - np.square(z).min(axis=1, keepdims=True)))
    prior = np.full(64, 1 / 64)
    for _ in range(100):
        posterior = likelihood * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = posterior.mean(axis=0)
    return posterior @ grid


def first_by_columns(shares: Callable) -> Callable:
    """The first 1-ways get .013 of mu^2 for each column, at least .1 and at most .55."""

    def divided(columns, rest, noise_ratio=0.0, rounds=3, workload=False, spent=None):
        if spent is None:
            plan = shares(columns, rest, noise_ratio, rounds, workload)
            left = rest - plan.report - plan.final
            spent = left * min(0.55, max(0.1, 0.013 * columns))
        return shares(columns, rest, noise_ratio, rounds, workload, spent)

    return divided


def few_rounds(shares: Callable) -> Callable:
    """Two screening rounds where the noise ratio is .008 or more."""

    def divided(columns, rest, noise_ratio=0.0, rounds=3, *more, **named):
        return shares(
            columns, rest, noise_ratio, 2 if noise_ratio >= 0.008 else rounds, *more, **named
        )

    return divided


def largest_of(looks: int) -> float:
    """About what the largest of so many noisy numbers is on average, in standard deviations."""
    return math.sqrt(2 * math.log(2 * max(1, looks)))


def by_posterior(
    ones: Sequence[Measurement], total: float = 0.0, ordered: Collection[str] = ()
) -> list[Measurement]:
    """Every 1-way by what its values are on average, given all values of the column."""
    out = []
    for m in ones:
        sigma = np.broadcast_to(np.sqrt(m.variances), m.values.shape)
        near = significance.posterior_means(m.values, sigma)
        near += (np.sum(m.values) - near.sum()) / near.size
        out.append(Measurement(m.clique, near, m.sigma, label=m.label))
    return out


def unexplained(
    good: Iterable[Candidate], follows: Follows, sigma: float, cheap: float = 0.0
) -> list[Candidate]:
    """What explains three quarters of a distance is taken off it; what explains less is left out."""
    explaining = AskedPairs(follows)
    out = []
    for c in good:
        if len(c.clique) == 2 and not c.explained:
            part = explaining.of(c.clique)
            left = replace(c, distance=c.distance - part) if part > 0.75 * c.distance else c
            known = left.gain(sigma) <= 0
            if known and c.noise(sigma) > cheap * c.removed:
                continue
            explaining.ask(c.clique, c.distance)
            c = c if known else left
        out.append(c)
    return out


def of_many_cells(wide_pairs: Callable) -> Callable:
    """Pairs with more cells than a column that follows by a constraint may have, whatever the rows."""
    return lambda domain, excluded, limit, most=0.0: wide_pairs(domain, excluded, limit)


def denoised(result: ScreeningResult, total: float) -> ScreeningResult:
    """A screening round with what each distance is on average, given all of its kind
    (`posterior_means`). Of a distance, what chance puts between a table and its counts is no noise of
    the release, and stays. Pairs are of one kind, larger sets of another. No distance exceeds 2
    `total`."""
    values = np.array(result.distances)
    sigma = np.array(result.sigma)
    chance = np.array([significance.chance_distance(result.estimates[c]) for c in result.cliques])
    pairs = np.array([len(c) == 2 for c in result.cliques])
    for kind in (pairs, ~pairs):
        away = (values - chance)[kind]
        values[kind] = chance[kind] + significance.posterior_means(
            away, sigma[kind], 0.0, 2 * total
        )
    return replace(result, distances=values.tolist())


def with_denoised(choose: Callable) -> Callable:
    """The choice of a batch by denoised distances."""
    return lambda self, number, share, result: choose(
        self, number, share, denoised(result, self.merged.total)
    )


def by_moments(
    to_model: Sequence[float],
    to_prior: Sequence[float | None],
    apart: Sequence[float],
    noise: Sequence[float],
) -> list[PriorAssessment | None]:
    """Public priors judged by moments of their own (DerSimonian and Laird)."""
    gap = np.asarray(apart, np.float64)
    far = np.asarray(to_model, np.float64)
    asked = np.array([d is not None for d in to_prior], bool)
    near = np.array([m if d is None else d for m, d in zip(to_model, to_prior)], np.float64)
    w = np.where(asked, np.square(gap / np.asarray(noise, np.float64)) / 2, 0.0)
    whole = float(w.sum())
    if not whole > 0:
        return [None] * len(to_model)
    f = (far - near) / gap
    mean = float(w @ f) / whole
    free = whole - float(w @ w) / whole
    excess = float(w @ np.square(f - mean)) - (int(asked.sum()) - 1)
    spread = max(0.0, excess / free) if free > 1e-9 * whole else 0.0
    pull = 1 / max(spread, 1e-12)
    best = np.minimum(1.0, (w * f + pull * mean) / (w + pull))
    doubt = 1 / np.sqrt(w + pull) + (pull / (w + pull)) / math.sqrt(whole)
    explained = gap * best
    left = np.where(asked, (far + near - explained) / 2, far - explained)
    believed = best > np.maximum(BELIEF * doubt, LEAST_EXPLAINED)
    return [
        PriorAssessment(e, max(0.0, d)) if yes else None
        for e, d, yes in zip(explained.tolist(), left.tolist(), believed)
    ]
