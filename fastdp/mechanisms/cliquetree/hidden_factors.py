"""A model of hidden factors: normal variables that all ordered columns follow at once.

Column j has a hidden number g_j, normal with variance 1, and its code is the interval of g_j's
distribution that the released 1-way gives it. The hidden numbers have factors in common:
g_j = loadings_j . z + own_j, with z a vector of few independent normals. What a pair of columns has
in common is then one number, the correlation R = loadings_i . loadings_j, and a contrast tells it: with
signs -1 below and +1 above the quantile t of a normal g,

    E s_i s_j = E s_i E s_j + sum over k >= 1 of a_k(t_i) a_k(t_j) R^k,
    a_k(t) = 2 phi(t) He_{k-1}(t) / sqrt(k!)

(Mehler's formula; for medians it is 2/pi arcsin R). `correlations` inverts it. Noise is taken out
of the contrasts before (`denoised`): few factors mean a matrix of low rank.

The factors' distribution is replaced by `classes` points of equal weight, so the model is a
graphical model like any other. It has a hidden column of classes, on which alone every column depends.
Everything that samples, conditions or answers from a model works on it as it stands. Everything
here is a function of released numbers.
"""

import math

import numpy as np

from ..._util.lazy import special
from ...significance import drawn_towards

TERMS = 48
"""Terms of Mehler's formula: beyond them lies less than .01 of R^48."""
MOST_CORRELATION = 0.995
MOST_COMMON = 0.98
"""The largest part of a hidden number's variance that the factors explain."""
DENOISING = 50
"""Steps of the iteration that removes noise from correlations. It contracts: ten more steps change no
loading by more than its grid."""
FACTORING = 100
"""Steps of the iteration that finds loadings, which contracts likewise."""
LEAST_FACTOR = 0.05
"""The least eigenvalue of a factor, in contrasts per row. A factor below it adds less than .05 / d to
the mean contrast of d columns."""
GRID = 1 << 12
"""Loadings are multiples of 1 / GRID. What is computed from them is the same to the bit, though
eigenvectors differ in their last bits between processors and numbers of threads."""
MOST_FACTORS = 16
ONE_FACTOR = 128
"""Classes of a model with one factor."""
SOBOL_BITS = 20
SOBOL = (
    (0, 0, 1),
    (1, 0, 1),
    (2, 1, 1, 3),
    (3, 1, 1, 3, 1),
    (3, 2, 1, 1, 1),
    (4, 1, 1, 1, 3, 3),
    (4, 4, 1, 3, 5, 13),
    (5, 2, 1, 1, 5, 5, 17),
    (5, 4, 1, 1, 5, 5, 5),
    (5, 7, 1, 1, 7, 11, 19),
    (5, 11, 1, 1, 5, 1, 1),
    (5, 13, 1, 1, 1, 3, 11),
    (5, 14, 1, 3, 5, 5, 31),
    (6, 1, 1, 3, 3, 9, 7, 49),
    (6, 13, 1, 1, 1, 15, 21, 21),
    (6, 16, 1, 3, 1, 13, 27, 49),
)
"""By axis: degree of the primitive polynomial, its inner coefficients as bits, and the first direction
numbers (Joe and Kuo, 2008)."""
SEVERAL_FACTORS = (1024, 512, 256, 128)
"""Classes of a model with several factors: the most that its limit on cells allows. With four times
as many the mean total variation of pairs of 30 columns with five factors falls from .0199 to .0195."""


def denoised(contrasts: np.ndarray, noise: float) -> np.ndarray:
    """A symmetric matrix of contrasts per row, whose diagonal is unknown, without most of its
    `noise` (a standard deviation per entry): that of few factors. What is left over keeps the part
    spread / (spread + noise^2)."""
    smooth, _ = of_factors(contrasts, noise)
    off = ~np.eye(len(contrasts), dtype=bool)
    out = np.zeros_like(smooth)
    out[off] = drawn_towards(smooth[off], contrasts[off], noise**2)
    return out


def of_factors(
    contrasts: np.ndarray, noise: float, own: np.ndarray | None = None
) -> tuple[np.ndarray, int]:
    """(the nearest matrix of few factors, their number), as in `denoised`. An eigenvalue v of signal and
    noise shrinks to sqrt(v^2 - 4 d noise^2). The diagonal that this leaves is put in its place. `own`:
    the column of each number, where several belong to one: their blocks are the diagonal, and
    eigenvalues below 0 are noise."""
    d = len(contrasts)
    off = ~np.eye(d, dtype=bool) if own is None else own[:, None] != own
    filled = np.where(off, contrasts, 0.0)
    smooth = filled
    kept = np.zeros(d)
    for _ in range(DENOISING):
        values, vectors = np.linalg.eigh(filled)
        kept = np.sign(values) * np.sqrt(np.maximum(values**2 - 4 * d * noise**2, 0.0))
        kept = kept if own is None else np.maximum(kept, 0.0)
        smooth = (vectors * kept) @ vectors.T
        filled = np.where(off, contrasts, smooth)
    return smooth, int(np.count_nonzero(kept))


def step_terms(quantiles: np.ndarray) -> np.ndarray:
    """a_k(t) of Mehler's formula, [columns, TERMS], of signs that change at these quantiles."""
    t = np.asarray(quantiles, np.float64)
    density = np.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    before = np.zeros_like(t)
    now = np.ones_like(t)
    terms = [2 * density]
    for k in range(1, TERMS):
        before, now = now, (t * now - math.sqrt(k - 1) * before) / math.sqrt(k)
        terms.append(2 * density * now / math.sqrt(k + 1))
    return np.stack(terms, axis=-1)


def correlations(contrasts: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """The correlations that give these centred contrasts, by bisection: contrasts grow with
    them."""
    products = terms[:, None, :] * terms[None, :, :]
    low = np.full(contrasts.shape, -MOST_CORRELATION)
    high = -low
    for _ in range(40):
        middle = (low + high) / 2
        value = np.zeros_like(middle)
        for k in range(terms.shape[1] - 1, -1, -1):
            value = (value + products[..., k]) * middle
        below = value < contrasts
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def loadings(correlation: np.ndarray, scale: np.ndarray, least: float) -> np.ndarray:
    """Loadings [columns, factors] whose products are closest to the correlations (principal axes).
    `scale`: contrasts per correlation of each column, by whose products pairs weigh. `least`: the
    least eigenvalue of a factor. Without factors: [columns, 0]."""
    d = len(correlation)
    off = ~np.eye(d, dtype=bool)
    weights = np.outer(scale, scale)
    target = np.where(off, correlation * weights, 0.0)
    own = np.zeros(d)  # from below: a diagonal that is too large would become factors of its own
    common = kept = np.zeros_like(target)
    for _ in range(FACTORING):
        values, vectors = np.linalg.eigh(np.where(off, target, np.diag(own * scale**2)))
        kept = np.where(values > least, values, 0.0)
        kept[:-MOST_FACTORS] = 0.0
        common = (vectors * kept) @ vectors.T / weights
        own = np.clip(np.diag(common), 0.0, MOST_COMMON)
    shrunk = np.sqrt(np.minimum(1.0, MOST_COMMON / np.maximum(np.diag(common), 1e-12)))
    factors = triangular(common * np.outer(shrunk, shrunk), int(np.sum(kept > 0)))
    return np.round(factors * GRID) / GRID


def triangular(common: np.ndarray, rank: int, least: float = 1.0 / GRID) -> np.ndarray:
    """L with L L' = common: Cholesky's, largest diagonal first, as long as that is `least` or more.
    Eigenvectors of equal eigenvalues may come out rotated; this does not depend on it."""
    left = common.copy()
    out = np.zeros((len(common), rank))
    for k in range(rank):
        pivot = int(np.argmax(np.round(np.diag(left), 9)))  # among equals the first
        if left[pivot, pivot] < least:
            return out[:, :k]
        out[:, k] = left[:, pivot] / math.sqrt(left[pivot, pivot])
        left -= np.outer(out[:, k], out[:, k])
    return out


def class_count(factors: int, most: int) -> int:
    """Classes of a model with so many factors: at most about `most`, at least 1."""
    if factors == 0:
        return 1
    if factors == 1:
        return max(1, min(ONE_FACTOR, most))
    return next((n for n in SEVERAL_FACTORS if n <= most), min(SEVERAL_FACTORS))


def class_points(classes: int, factors: int) -> np.ndarray:
    """Points [classes, factors] that stand for independent normals: means 0, variances 1 and
    covariances 0 are exact. They are Sobol's, through the normal's quantiles."""
    if factors == 0:
        return np.zeros((classes, 0))
    if factors == 1:
        even = (np.arange(classes)[:, None] + 0.5) / classes
    else:
        # The first points are the corner of all axes, and the middle: take those from `classes` on.
        even = sobol(classes, 2 * classes, factors) + 0.25 / classes
    points = special.ndtri(even)
    points -= points.mean(axis=0)
    for k in range(factors):  # Gram and Schmidt
        for j in range(k):
            points[:, k] -= points[:, j] * np.mean(points[:, j] * points[:, k])
        points[:, k] /= math.sqrt(np.mean(points[:, k] ** 2))
    return points


def sobol(start: int, stop: int, axes: int) -> np.ndarray:
    """Sobol's points with these numbers, [points, axes], in [0, 1); at most MOST_FACTORS axes."""
    number = np.arange(start, stop, dtype=np.int64)
    out = np.zeros((len(number), axes), np.int64)
    for axis in range(axes):
        degree, polynomial, *first = SOBOL[axis]
        odd = list(first)
        while len(odd) < SOBOL_BITS:
            k = len(odd)
            if degree == 0:
                odd.append(1)
                continue
            new = odd[k - degree] ^ (odd[k - degree] << degree)
            for i in range(1, degree):
                if polynomial >> (degree - 1 - i) & 1:
                    new ^= odd[k - i] << i
            odd.append(new)
        for k, m in enumerate(odd):
            out[:, axis] ^= np.where(number >> k & 1, m << (SOBOL_BITS - 1 - k), 0)
    return out / (1 << SOBOL_BITS)


def class_tables(
    points: np.ndarray, factors: np.ndarray, rows: np.ndarray, placed: np.ndarray
) -> np.ndarray:
    """P(code | class) of one column [classes, codes]. `factors`: its loadings; `rows`: by code, in
    order; `placed`: codes that have a place in the order. Others are independent of the class. The
    mean over classes is the 1-way."""
    shares = np.maximum(rows, 0.0) / np.maximum(rows, 0.0).sum()
    body = shares[placed] / shares[placed].sum()
    inside = np.clip(np.cumsum(body)[:-1], 1e-12, 1 - 1e-12)
    centre = np.zeros(len(points))
    for k, loading in enumerate(factors):  # plain sums: the same bits for any number of threads
        centre += points[:, k] * loading
    own = math.sqrt(max(1 - float(np.sum(factors**2)), 1 - MOST_COMMON))
    cuts = special.ndtri(inside)
    for _ in range(8):  # points are not quite normal: Newton's steps towards the 1-way
        at = (cuts[None, :] - centre[:, None]) / own
        density = np.exp(-at * at / 2).mean(axis=0) / (own * math.sqrt(2 * math.pi))
        away = (special.ndtr(at).mean(axis=0) - inside) / np.maximum(density, 1e-12)
        cuts = np.maximum.accumulate(cuts - np.clip(away, -0.5, 0.5))
    below = special.ndtr((cuts[None, :] - centre[:, None]) / own)
    ends = np.concatenate([np.zeros((len(points), 1)), below, np.ones((len(points), 1))], axis=1)
    table = np.maximum(np.diff(ends, axis=1), 0.0) + 1e-12 * body
    for _ in range(2):
        table *= body / np.maximum(table.mean(axis=0), 1e-300)
        table /= table.sum(axis=1, keepdims=True)
    out = np.tile(shares, (len(points), 1))
    out[:, placed] = table * shares[placed].sum()
    return out
