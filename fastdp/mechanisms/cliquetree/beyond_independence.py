"""Which answers about pairs say more than that their columns are independent.

Where noise is large, some pairs are measured because the noise of a distance makes them stand out. A
fit draws their answers towards independence, but how far it draws each rests on that answer alone. For
n free cells James and Stein's estimate costs up to two squared standard errors more than the best
factor. Among twenty such pairs, one then follows noise, and is further off than independent columns.

So the finished answers are compared with independence, all of them together. In units of the noise,
let y be an answer, q the product of the single columns, and d what is left of y - q when its sums
over both axes are taken off (a table of r rows and c columns has n = (r - 1)(c - 1) such numbers):

- |d|^2 - n is an unbiased estimate of S, the squared distance of the truth from independence, with a
  variance of 2 n + 4 S. Sums over the axes are left out, since single columns say more about these.
- If neither the sum of all |d|^2 nor any of them stands out of what noise alone gives, all answers are
  left out. A few answers of noise would else be a distribution with a few true ones.
- The S of all pairs, over sqrt(2 n), are noisy numbers of one kind. Each is taken for its mean
  given all others (`posterior_means`), so what one answer seems to say counts less where the others
  say nothing.
- To leave an answer out costs S. To use it as it is costs n. With the best factor it costs
  S n / (S + n), and up to 2 more, since the factor is estimated. So leaving out costs less where S is
  below both n and 1 + sqrt(1 + 2 n).

Of an answer that is left out, its sums over either axis stay: they say more about single columns,
which are mostly noise themselves where noise is large. The run's measurements have the answer as it
is; only the fit does without it. Everything here is a function of released numbers and public facts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...measurement import Measurement
from ...queries import Binned
from ...significance import posterior_means, stands_out
from ..shared.merged_codes import Merged
from ..shared.screening import least_square


def telling(measured: Sequence[Measurement], merged: Merged) -> list[Measurement]:
    """The measurements, over merged codes; of answers about pairs that are better left out, the
    sums about single columns."""
    same: dict[tuple, list[int]] = {}
    for i, m in enumerate(measured):
        if len(m.clique) == 2 and np.ndim(m.sigma) == 0:
            maps = () if m.query is None else tuple(codes.tobytes() for codes in m.query.maps)
            same.setdefault((m.clique, maps), []).append(i)
    found = {key: _beyond([measured[i] for i in own], merged) for key, own in same.items()}
    known = {key: told for key, told in found.items() if told is not None}
    if not known:
        return list(measured)
    excess, free, least = np.array(list(known.values())).T
    if noise_alone(excess + free, free):
        expected = np.full(len(excess), -math.inf)
    else:
        unit = np.sqrt(2 * free)
        noisy = excess / unit
        expected = posterior_means(noisy, np.ones(len(noisy)), 0.0, max(1.0, noisy.max())) * unit
    left_out = {i for key, less in zip(known, expected < least) if less for i in same[key]}
    kept = [m for i, m in enumerate(measured) if i not in left_out]
    return kept + [one for i in sorted(left_out) for one in _sums(measured[i], merged)]


def noise_alone(squares: np.ndarray, free: np.ndarray) -> bool:
    """Whether noise explains the squared lengths of vectors of `free` numbers, each of them and all
    together: under noise alone they are chi-squared, and their cube roots nearly normal (Wilson and
    Hilferty)."""
    squares = np.append(squares, squares.sum())
    free = np.append(free, free.sum())
    variance = 2 / (9 * free)
    z = (np.cbrt(squares / free) - (1 - variance)) / np.sqrt(variance)
    return not stands_out(z, len(z)).any()


def _sums(answer: Measurement, merged: Merged) -> list[Measurement]:
    """What an answer about a pair says about either column."""
    shape = merged.domain.shape(answer.clique)
    table = answer.values.reshape(shape if answer.query is None else answer.query.bins)
    out = []
    for i, name in enumerate(answer.clique):
        query = None if answer.query is None else Binned(shape[i : i + 1], [answer.query.maps[i]])
        sigma = answer.sigma * math.sqrt(table.shape[1 - i])
        sums = table.sum(axis=1 - i)
        out.append(Measurement((name,), sums, sigma, query, label=answer.label))
    return out


def _beyond(answers: Sequence[Measurement], merged: Merged) -> tuple[float, int, float] | None:
    """(the estimate of S, n, the least S that is worth using) of the answers about one pair over
    one partition; None where a table has one row or column."""
    clique = answers[0].clique
    query = answers[0].query
    table = merged.independent([clique])[clique]
    if query is not None:
        table = query.product(table.reshape(-1)).reshape(query.bins)
    free = math.prod(n - 1 for n in table.shape)
    if free < 1:
        return None
    precision = np.array([1 / m.sigma**2 for m in answers])
    mean = precision @ np.stack([m.values for m in answers]) / precision.sum()
    sigma = 1 / math.sqrt(precision.sum())
    away = (mean.reshape(table.shape) - table) / sigma
    away -= away.mean(axis=0)
    away -= away.mean(axis=1)[:, None]
    return float(np.square(away).sum()) - free, free, least_square(free, table, sigma)
