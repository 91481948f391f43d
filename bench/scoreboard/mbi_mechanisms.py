"""MST and AIM as published (McKenna and others 2021, 2022) with mbi 2.0 as their engine, for
bench.scoreboard.

mbi's package has estimators and no mechanisms; these two are short drivers written for this
comparison. Budget by zCDP at (epsilon, delta), L1 scores, mbi's mirror descent with its defaults
(1,000 iterations in the end, 100 between AIM's rounds), models up to 80 MB. MST merges values below
three standard deviations, as published. Plain numpy noise: these rows are for scoring, not for
release. Needs no fastdp.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

MODEL_MB = 80.0


def rho_of(epsilon, delta):
    """The largest rho of zCDP that gives (epsilon, delta), by bisection over the order of the
    conversion."""

    def delta_of(rho):
        low = 1.01
        high = (epsilon + 1) / (2 * rho) + 2
        for _ in range(200):
            alpha = (low + high) / 2
            slope = (2 * alpha - 1) * rho - epsilon + math.log1p(-1 / alpha)
            low, high = (alpha, high) if slope < 0 else (low, alpha)
        return math.exp((alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha)) / (
            alpha - 1
        )

    low = 0.0
    high = epsilon + 1
    for _ in range(100):
        rho = (low + high) / 2
        low, high = (rho, high) if delta_of(rho) <= delta else (low, rho)
    return low


class Table:
    """Coded columns, their marginals, noisy measurements of them, and fits by mbi."""

    def __init__(self, frame, sizes, seed):
        import mbi

        self.mbi = mbi
        self.rng = np.random.default_rng(seed)
        self.codes = {name: frame[name].to_numpy() for name in sizes}
        self.sizes = dict(sizes)
        self.measured = []

    @property
    def domain(self):
        return self.mbi.Domain(list(self.sizes), list(self.sizes.values()))

    def marginal(self, clique):
        shape = [self.sizes[a] for a in clique]
        cells = np.ravel_multi_index([self.codes[a] for a in clique], shape)
        return np.bincount(cells, minlength=math.prod(shape)).astype(float)

    def measure(self, clique, sigma):
        answer = self.marginal(clique) + self.rng.normal(
            0, sigma, math.prod(self.sizes[a] for a in clique)
        )
        self.measured.append(self.mbi.LinearMeasurement(answer, clique, stddev=sigma))
        return answer

    def fit(self, iters, warm=None):
        return self.mbi.estimation.MirrorDescent().estimate(
            self.domain, self.measured, iters=iters, warm_start=warm
        )

    def distance(self, model, clique):
        expected = np.asarray(model.project(clique).datavector())
        return float(np.abs(self.marginal(clique) - expected).sum())

    def choose(self, scores, epsilon, sensitivity):
        """The exponential mechanism, by Gumbel noise."""
        values = np.array(list(scores.values())) * (epsilon / (2 * sensitivity))
        return list(scores)[int(np.argmax(values + self.rng.gumbel(size=len(values))))]


def mst(frame, sizes, epsilon, delta, seed):
    table = Table(frame, sizes, seed)
    rho = rho_of(epsilon, delta)
    sigma = math.sqrt(3 * len(sizes) / (2 * rho))
    kept = {}
    for name in sizes:
        noisy = table.measure((name,), sigma)
        common = noisy >= 3 * sigma
        code = np.where(common, np.cumsum(common) - 1, common.sum())
        kept[name] = (code, noisy)
    table.measured = []
    for name, (code, noisy) in kept.items():
        table.codes[name] = code[table.codes[name]]
        table.sizes[name] = int(code.max()) + 1
        merged = np.bincount(code, noisy, table.sizes[name])
        spread = sigma * np.sqrt(np.bincount(code, minlength=table.sizes[name]))
        table.measured.append(
            table.mbi.LinearMeasurement(merged, (name,), stddev=float(spread.mean()))
        )
    model = table.fit(1000)
    pairs = {p: table.distance(model, p) for p in itertools.combinations(table.sizes, 2)}
    group = {name: name for name in sizes}
    step = math.sqrt(8 * (rho / 3) / (len(sizes) - 1))
    for _ in range(len(sizes) - 1):
        scores = {p: d for p, d in pairs.items() if group[p[0]] != group[p[1]]}
        a, b = table.choose(scores, step, 1.0)
        old, new = group[a], group[b]
        group = {name: new if g == old else g for name, g in group.items()}
        table.measure((a, b), math.sqrt(3 * (len(sizes) - 1) / (2 * rho)))
    rows = table.fit(1000).synthetic_data(len(frame)).to_dict()
    return {name: _expanded(np.asarray(rows[name]), *kept[name], table.rng) for name in sizes}


def _expanded(rows, code, noisy, rng):
    """Merged codes back to codes: inside a merged one by the noisy 1-way."""
    out = np.empty(len(rows), np.int64)
    for value in range(int(code.max()) + 1):
        members = np.flatnonzero(code == value)
        at = np.flatnonzero(rows == value)
        weights = np.maximum(noisy[members], 0)
        if weights.sum() > 0:
            share = weights / weights.sum()
        else:
            share = np.full(len(members), 1 / max(1, len(members)))
        if len(members):
            out[at] = rng.choice(members, len(at), p=share)
    return out


def aim(frame, sizes, epsilon, delta, seed):
    from mbi.junction_tree import hypothetical_model_size

    table = Table(frame, sizes, seed)
    rho = rho_of(epsilon, delta)
    d = len(sizes)
    sets = list(itertools.combinations(sizes, min(3, d)))
    parts = {
        part for s in sets for r in range(1, len(s) + 1) for part in itertools.combinations(s, r)
    }
    weight = {part: sum(len(set(part).intersection(s)) for s in sets) for part in sorted(parts)}
    sigma = math.sqrt(16 * d / (2 * 0.9 * rho))
    step = math.sqrt(8 * 0.1 * rho / (16 * d))
    used = 0.0
    for name in sizes:
        table.measure((name,), sigma)
        used += 1 / (2 * sigma**2)
    model = table.fit(1000)
    most = max(weight.values())
    while used < (1 - 1e-9) * rho:
        if rho - used < 2 * (1 / (2 * sigma**2) + step**2 / 8):
            sigma = math.sqrt(1 / (2 * 0.9 * (rho - used)))
            step = math.sqrt(8 * 0.1 * (rho - used))
        cliques = [m.clique for m in table.measured]
        allowed = {}
        for clique, w in weight.items():
            if (
                hypothetical_model_size(table.domain, [*cliques, clique]) <= MODEL_MB * used / rho
                or len(clique) == 1
            ):
                noise = math.sqrt(2 / math.pi) * sigma * math.prod(sizes[a] for a in clique)
                allowed[clique] = w * (table.distance(model, clique) - noise)
        best = table.choose(allowed, step, most)
        before = np.asarray(model.project(best).datavector())
        table.measure(best, sigma)
        used += 1 / (2 * sigma**2) + step**2 / 8
        model = table.fit(100 if used < (1 - 1e-9) * rho else 1000, model)
        moved = np.abs(np.asarray(model.project(best).datavector()) - before).sum()
        if moved <= sigma * math.sqrt(2 / math.pi) * before.size:
            sigma = sigma / 2
            step = step * 2
    rows = model.synthetic_data(len(frame)).to_dict()
    return {name: np.asarray(rows[name]) for name in sizes}
