"""Fits a `PublicModel` to public rows. It counts them without noise: what it is handed is public."""

import numpy as np

from ...errors import DataError
from ...public.ids import Habits, cell_numbers
from ..base import Public
from . import mixture as mixtures
from .conditional import Groups, Link
from .model import PublicModel
from .options import Options
from .prior import tree_cliques

CANDIDATES = (1, 2, 4, 6, 8, 10, 14, 20, 30)
"""Numbers of archetypes that "auto" compares."""
BLOCK = 1 << 18
"""Points whose densities are in memory at once."""


def fit(public: Public, options: Options) -> PublicModel:
    """Archetypes of the users of public rows.

    UsageError if the options do not fit the schema, DataError if there are no rows or no users.
    """
    codes = public.codes
    if public.user is None:
        raise DataError(
            "archetypes describe users, so the schema of the public data needs a user column"
        )
    rows = len(public.user)
    if not rows:
        raise DataError("public=: the public data has no row that fits the schema")
    domain = public.schema.domain
    resolved = options.resolve(domain)
    for name in domain:
        if name not in codes:
            raise DataError(
                f"public=: the chain needs column {name!r}, which the public data does not have"
            )
    shape = domain.shape(resolved.features)
    cell = cell_numbers(codes, resolved.features, shape, rows)
    user, users = _dense(public.user)

    counts = np.bincount(cell, minlength=domain.cells(resolved.features))
    points = np.stack(np.unravel_index(np.arange(counts.size), shape), axis=1)
    size = options.archetypes
    evidence = list[dict]()
    if size == "auto":
        size, evidence = choose(points, cell, user, users, options.seed)
    seen = np.flatnonzero(counts)
    mixture = mixtures.fit(points[seen], counts[seen], int(size), seed=options.seed)
    labels = label_cells(mixture, points)

    rng = np.random.Generator(np.random.Philox(key=options.seed))
    archetype = most_common(user, labels[cell], mixture.size, users, rng)
    row_archetype = archetype[user]
    trait = None
    if resolved.trait is not None:
        trait = most_common(user, codes[resolved.trait], domain[resolved.trait], users, rng)
    return PublicModel(
        options=options,
        schema_digest=public.schema.digest(),
        domain=domain,
        mixture=mixture,
        labels=labels,
        archetype=archetype,
        trait=trait,
        habits=Habits.from_rows(resolved.habits, domain.shape(resolved.habits), user, codes),
        places=_places(row_archetype, cell, mixture.size, counts),
        links=_links(public, resolved.links),
        prior=_prior(public, resolved.prior),
        evidence=tuple(evidence),
    )


def label_cells(mixture: mixtures.Mixture, points: np.ndarray) -> np.ndarray:
    """The label (archetype) of every cell over the features, computed `block` cells at a time."""
    parts = [mixture.labels(points[i : i + BLOCK]) for i in range(0, points.shape[0], BLOCK)]
    return np.concatenate(parts).astype(np.int64)


def choose(
    points, cell, user, users: int, seed: int, candidates=CANDIDATES
) -> tuple[int, list[dict]]:
    """(number of archetypes, evidence). The number is the smallest candidate whose mean log
    likelihood on held-out users is within one standard error of the best. Half of the users are
    held out; standard errors are computed over users, since the rows of one user are not
    independent."""
    rng = np.random.Generator(np.random.Philox(key=seed + 1))
    held = (rng.permutation(users) % 2 == 0) if users > 1 else np.ones(1, bool)
    out_rows = held[user]
    train = np.bincount(cell[~out_rows] if users > 1 else cell, minlength=points.shape[0])
    seen = np.flatnonzero(train)
    test_cell = cell[out_rows]
    test_user = user[out_rows]
    rows = np.bincount(test_user, minlength=users)[held]
    sums = []
    for k in candidates:
        mixture = mixtures.fit(points[seen], train[seen], k, seed=seed, starts=1, tol=1e-3)
        sums.append(
            np.bincount(test_user, mixture.log_density(points)[test_cell], minlength=users)[held]
        )
    means = [float(s.sum() / rows.sum()) for s in sums]
    best = int(np.argmax(means))
    evidence = []
    chosen = best
    for i in reversed(range(len(candidates))):
        gap = (sums[best] - sums[i]) - (means[best] - means[i]) * rows
        error = float(np.sqrt((gap**2).sum()) / rows.sum())
        if i < chosen and means[best] - means[i] <= error:
            chosen = i
        about = {"log_likelihood": means[i], "error_of_gap_to_best": error}
        evidence.append({"archetypes": candidates[i], **about})
    return candidates[chosen], evidence[::-1]


def most_common(user, value, width: int, users: int, rng: np.random.Generator) -> np.ndarray:
    """Each user's most common value, int64; ties at random."""
    key, times = np.unique(user.astype(np.int64) * width + value, return_counts=True)
    owner, choice = np.divmod(key, width)
    order = np.lexsort((rng.random(key.size), times, owner))
    last = np.flatnonzero(np.append(owner[order][1:] != owner[order][:-1], True))
    out = np.zeros(users, np.int64)
    out[owner[order[last]]] = choice[order[last]]
    return out


def _dense(user: np.ndarray) -> tuple[np.ndarray, int]:
    """(user numbers without gaps, number of users): users whose rows were all dropped get no
    number."""
    there = np.bincount(user) > 0
    number = np.cumsum(there) - 1
    return number[user], int(there.sum())


def _places(archetype, cell, size: int, counts: np.ndarray) -> Groups:
    """Cells of the features by archetype; one that no user has gets the cells of all."""
    key, times = np.unique(archetype * counts.size + cell, return_counts=True)
    missing = np.setdiff1d(np.arange(size), archetype)
    seen = np.flatnonzero(counts)
    key = np.concatenate([key, *(a * counts.size + seen for a in missing)])
    times = np.concatenate([times, *(counts[seen] for _ in missing)])
    order = np.argsort(key, kind="stable")
    return Groups.of(key[order], times[order], counts.size)


def _links(public: Public, links) -> tuple[Link, ...]:
    """The chain: counts of each target given each of its levels of conditions."""
    domain = public.schema.domain
    wanted = list(dict.fromkeys((*level, target) for target, levels in links for level in levels))
    counts = public.sparse_marginals(wanted)
    out = []
    for target, levels in links:
        tables = []
        for level in levels:
            keys, sums = counts[(*level, target)]
            tables.append(Groups.of(keys, sums, domain[target]))
        out.append(Link(target, levels, tuple(domain.shape(x) for x in levels), tuple(tables)))
    return tuple(out)


def _prior(public: Public, cliques) -> dict:
    """Cells and counts of the public marginals that `refine` starts from."""
    if cliques is None:
        cliques = public.choose_outer()
    counted = tree_cliques(public.schema.domain, cliques)
    counts = public.sparse_marginals(counted)
    return {c: (counts[c][0].astype(np.int64), counts[c][1]) for c in counted}
