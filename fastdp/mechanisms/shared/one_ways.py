"""1-way marginals: measured, averaged, added up, and what their noise does to them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ...division import best_shares
from ...domain import Clique, Domain
from ...errors import UsageError
from ...estimate.total import average
from ...measurement import Measurement, Request
from ...release.gateway import Session
from ...significance import LIKELY, onto_simplex
from ..plans import Outline, Planned, PlannedStep
from .expected_counts import expected_counts

PARTS = 8
"""1-ways that are measured again share so many parts for each of them: what one gets is right to an eighth of
an even share. More parts take longer and change little, since near the best division errors hardly move."""
NOISE = math.sqrt(2 / math.pi)
"""Mean of |N(0, 1)|."""


def part_mu(session: Session, share: float) -> float:
    """The Gaussian-DP parameter of a share of the session's budget; UsageError if only pure
    releases are paid for."""
    if session.mu is None:
        raise UsageError("delta must be above 0: this mechanism adds Gaussian noise")
    return session.mu * math.sqrt(share)


def ones_shares(
    domain: Domain, share: float, weight: Callable[[Clique], float] | None = None
) -> dict[str, float]:
    """What each 1-way gets of `share`: all the same, or, with weights, by weight and size."""
    if weight is None:
        return {a: share / len(domain) for a in domain}
    cells = {a: weight((a,)) * n for a, n in domain.items()}
    return {a: share * part for a, part in best_shares(cells).items()}


def ones_step(
    domain: Domain,
    share: float,
    weight: Callable[[Clique], float] | None = None,
    label: str = "1-ways",
    note: str = "1-ways",
) -> PlannedStep:
    """The step that measures every 1-way, for `share` of mu^2 in all (see `ones_shares`)."""
    shares = ones_shares(domain, share, weight)
    lines = [Planned((a,), own, domain[a], note=note) for a, own in shares.items()]
    return PlannedStep(label, share, tuple(lines))


def measure_planned(session: Session, plan: Outline, label: str) -> list[Measurement]:
    """The answers to what a step of the plan lists, in its order."""
    lines = plan.lines(label)
    requests = [Request(p.clique, part_mu(session, p.share)) for p in lines for _ in range(p.times)]
    return session.measure(requests, label=label)


def measure_ones(
    session: Session,
    share: float,
    label: str = "1-ways",
    weight: Callable[[Clique], float] | None = None,
) -> list[Measurement]:
    """Every 1-way marginal, for `share` of mu^2 in all (see `ones_shares`)."""
    return measure_shares(session, ones_shares(session.domain, share, weight), label)


def measure_shares(session: Session, shares: Mapping[str, float], label: str) -> list[Measurement]:
    """The 1-ways of columns with a share of mu^2."""
    asked = [Request((a,), part_mu(session, s)) for a, s in shares.items() if s > 0]
    return session.measure(asked, label=label)


def measure_again(
    session: Session,
    ones: Sequence[Measurement],
    share: float,
    label: str,
    weight: Callable[[Clique], float],
) -> list[Measurement]:
    """A further answer for the 1-ways that are worth one (see `shares_again`). A code that noise hides is
    expected to have as many rows as the others of its column, and a column of equal counts needs no better
    answer. So that a frequent code is not hidden for good, the most frequent ones count as if they had at
    least the rows that Zipf's law gives them."""
    total = estimate_total(ones)
    counts = []
    for m in expected_counts(ones, total):
        law = 1 / np.arange(1, m.values.size + 1)
        counts.append(np.maximum(np.sort(m.values)[::-1], total * law / law.sum()))
    unit = (part_mu(session, 1.0) / session.clip) ** 2
    return measure_shares(session, shares_again(ones, counts, share, unit, weight), label)


def estimate_total(measurements: Sequence[Measurement]) -> float:
    """The minimum-variance estimate of the number of rows from answers that each add up to it.

    A total below LIKELY standard errors is noise, and taken for as many: shares of a smaller total would be
    all noise. Without this limit, worst pairs of 40 and 100 rows are 15 ± 6 % further off (`python -m
    bench.tune --of-class --without "least total" --epsilon 0.01 0.1`)."""
    sums = [(float(np.sum(m.values)), float(np.sum(m.variances))) for m in measurements]
    total, variance = average(sums)
    return max(total, LIKELY * math.sqrt(variance))


def shares_again(
    ones: Sequence[Measurement],
    counts: Sequence[np.ndarray],
    share: float,
    unit: float,
    weight: Callable[[Clique], float],
) -> dict[str, float]:
    """What each 1-way gets of `share` where all have been measured before, and rows of each code are
    expected to be `counts`. unit: the precision (one over the variance) of all of mu^2.

    With noise s the error of a code of t rows is about t s / sqrt(t^2 + s^2). That is s where it has many
    rows, and t where noise hides it. So a column whose codes stay hidden gets nothing. The sum of all errors
    is convex in the shares, so each part goes where it helps most."""
    squares = [np.square(c[c > 0]) for c in counts]
    sizes = [weight(m.clique) * np.sqrt(t) for m, t in zip(ones, squares)]
    known = np.array([1 / float(np.mean(m.variances)) for m in ones])
    parts = np.zeros(len(ones), np.int64)
    count = PARTS * len(ones)
    step = share * unit / count

    def error(i: int, more: int) -> float:
        return float(np.sum(sizes[i] / np.sqrt(1 + (known[i] + more * step) * squares[i])))

    now = np.array([error(i, 0) for i in range(len(ones))])
    then = np.array([error(i, 1) for i in range(len(ones))])
    for _ in range(count):
        gain = now - then
        i = int(np.argmax(gain > gain.max() * (1 - 1e-9)))
        parts[i] += 1
        now[i], then[i] = then[i], error(i, int(parts[i]) + 1)
    return {m.clique[0]: share * int(n) / count for m, n in zip(ones, parts)}


def independent(
    cliques: Iterable[Clique], ones: Mapping[str, np.ndarray], total: float
) -> dict[Clique, np.ndarray]:
    """What each marginal would be if its columns, with these single counts, were independent."""
    scale = max(total, 1e-9)
    out = {}
    for clique in cliques:
        out[clique] = ones[clique[0]]
        for a in clique[1:]:
            out[clique] = np.multiply.outer(out[clique], ones[a] / scale)
    return out


def averaged(first: Sequence[Measurement], second: Sequence[Measurement]) -> list[Measurement]:
    """Two measurements of each marginal as one: the mean by precision, with its standard error. Those
    that were measured once stay."""
    again = {m.clique: m for m in second}
    out = []
    for a in first:
        b = again.get(a.clique)
        if b is None:
            out.append(a)
            continue
        p, q = 1 / a.variances, 1 / b.variances
        values = (a.values * p + b.values * q) / (p + q)
        errors = 1 / np.sqrt(p + q)
        sigma = float(errors[0]) if np.ndim(a.sigma) == np.ndim(b.sigma) == 0 else errors
        out.append(Measurement(a.clique, values, sigma, label=a.label))
    return out


def noise_ratio(ones: Sequence[Measurement], total: float, scale: float) -> float:
    """The mean over the 1-ways of the total variation distance that noise of `scale` times their
    standard errors causes."""
    return min(1.0, float(np.mean([noise_tv(m, total, scale) for m in ones])))


def noise_tv(one: Measurement, total: float, scale: float = 1.0) -> float:
    """The total variation distance that noise of `scale` times its standard error causes in a 1-way.

    A value whose count is above that noise adds 0.4 scale sigma / N, others less."""
    if not total > 0:
        return 1.0
    sigma = scale * float(np.mean(np.sqrt(one.variances)))
    return NOISE * sigma * effective_cells(onto_simplex(one.values, total), sigma) / (2 * total)


def effective_cells(estimate: np.ndarray, sigma: float) -> float:
    """How many cells noise of `sigma` can affect. A cell counts as min(1, expected rows / sigma):
    one that is expected to be empty is 0 after the fit, whatever the noise."""
    return float(np.minimum(1.0, estimate / max(sigma, 1e-12)).sum())
