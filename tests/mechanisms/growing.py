"""A session without privacy for mechanisms that grow a model: rows in memory, plain Gaussian noise,
every charge noted."""

import math
from types import SimpleNamespace

import numpy as np
from scipy.stats import norm

import fastdp
from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.base import Job
from fastdp.privacy.accountant import BoundedRange, mu_of
from fastdp.release.filtered_marginals import Filtered
from fastdp.schema import Schema


class RowsSession:
    """Answers from rows (columns of codes); `spent` is the sum of mu^2, `steps` the labels in
    order."""

    def __init__(self, domain, columns, *, mu=1.0, clip=1, seed=0, noise=1.0):
        self.domain = Domain(domain)
        self.columns = {a: np.asarray(columns[a]) for a in self.domain}
        self.mu = mu
        self.clip = clip
        self.noise = noise
        columns_of = Schema.from_domain(dict(self.domain.items())).columns
        self.schema = SimpleNamespace(
            constraints=(),
            user_amounts=(),
            user=None,
            max_rows_per_user=clip,
            domain=self.domain,
            modelled=self.domain,
            columns=columns_of,
        )
        self.rng = np.random.default_rng(seed)
        self.spent = 0.0
        self.steps = []
        self.looks = []
        self.asked = []

    def marginal(self, clique, recode=None):
        recode = recode or {}
        sizes = self.domain.recoded(recode).shape(clique)
        cell = np.zeros(len(next(iter(self.columns.values()))), np.int64)
        for name, size in zip(clique, sizes):
            codes = self.columns[name]
            cell = cell * size + (recode[name][codes] if name in recode else codes)
        return np.bincount(cell, minlength=math.prod(sizes)).astype(float)

    def charge(self, label, *costs):
        self.steps.append(label)
        self.spent += sum(mu**2 for mu in costs)

    def noisy(self, exact, sigma):
        return exact + self.noise * sigma * self.rng.standard_normal(len(exact))

    def measure(self, requests, label, *, recode=None):
        self.charge(label, *(r.mu for r in requests))
        self.asked += requests
        out = []
        for r in requests:
            exact = self.marginal(r.clique, recode)
            sigma = self.clip / r.mu
            if r.query is not None:
                exact = r.query.product(exact)
                sigma = r.query.row_sigma(sigma)
            out.append(Measurement(r.clique, self.noisy(exact, sigma), sigma, r.query, label=label))
        return out

    def expect(self, cliques):
        """Rows in memory need no hint of what will be asked."""

    def distance(self, clique, estimates, recode):
        return np.abs(
            self.marginal(clique, recode) - np.asarray(estimates[clique]).reshape(-1)
        ).sum()

    def distances(self, cliques, estimates, *, mu, label, weights=None, recode=None):
        self.charge(label, mu)
        self.looks.append(list(cliques))
        w = np.ones(len(cliques)) if weights is None else np.asarray(weights, float)
        sigma = self.clip * math.sqrt(np.sum(w * w)) / mu / w
        exact = np.array([self.distance(c, estimates, recode) for c in cliques])
        return SimpleNamespace(values=self.noisy(exact, sigma), sigma=sigma)

    most_filtered = 1 << 40

    def guesses(self, pairs, *, mu, label, recode=None, skip=None):
        self.charge(label, mu)
        sigma = self.clip * math.sqrt(len(pairs)) / mu
        shape = self.domain.recoded(recode or {}).shape
        exact = []
        for a, b in pairs:
            table = self.marginal((a, b), recode).reshape(shape((a, b)))
            for axis, name in enumerate((a, b)):
                table = np.delete(table, skip[name], axis) if name in (skip or {}) else table
            exact.append(table.max(axis=1).sum())
        return SimpleNamespace(
            values=self.noisy(np.array(exact), sigma), sigma=np.full(len(pairs), sigma)
        )

    def contrasts(self, sets, signs, *, mu, label):
        self.charge(label, mu)
        sigma = self.clip * math.sqrt(len(sets)) / mu
        exact = []
        for columns in sets:
            left = self.marginal(columns).reshape(self.domain.shape(columns))
            for a in columns:
                left = np.tensordot(signs[a], left, axes=1)
            exact.append(float(left))
        return SimpleNamespace(
            values=self.noisy(np.array(exact), sigma), sigma=np.full(len(sets), sigma)
        )

    def filtered(self, clique, *, mu, lifted, label):
        self.charge(label, mu)
        sigma = self.clip / mu
        noisy = self.noisy(self.marginal(clique), sigma)
        bar = sigma * norm.isf(lifted / noisy.size)
        cells = np.flatnonzero(noisy > bar)
        return Filtered(clique, self.domain.shape(clique), cells, noisy[cells], sigma, bar)

    def select_half_set(self, sets, estimates, *, epsilon, label, penalties, allowed, recode):
        cliques = [tuple(sets.columns[i] for i in one) for one in sets.members]
        return self.select_l1(
            cliques,
            dict(zip(cliques, estimates)),
            epsilon=epsilon,
            label=label,
            penalties=penalties,
            allowed=allowed.tolist(),
            recode=recode,
        )

    def select_l1(
        self,
        cliques,
        estimates,
        *,
        epsilon,
        label,
        weights=None,
        penalties=None,
        allowed=None,
        recode=None,
    ):
        self.charge(label, mu_of(BoundedRange(epsilon)))
        allowed = range(len(cliques)) if allowed is None else allowed
        w = np.ones(len(cliques)) if weights is None else np.asarray(weights, float)
        off = np.zeros(len(cliques)) if penalties is None else np.asarray(penalties, float)
        scores = {
            i: w[i] * (self.distance(cliques[i], estimates, recode) - off[i]) for i in allowed
        }
        largest = self.clip * max(w[i] for i in allowed)
        noisy = {
            i: epsilon * s / (2 * largest) + self.noise * self.rng.gumbel()
            for i, s in scores.items()
        }
        return max(noisy, key=noisy.__getitem__)


def dependent_rows(rows=6000, columns=6, size=4, seed=0, keep=0.8):
    """Columns in a chain of strong dependence."""
    rng = np.random.default_rng(seed)
    out = [rng.integers(0, size, rows)]
    for _ in range(columns - 1):
        out.append(np.where(rng.random(rows) < keep, out[-1], rng.integers(0, size, rows)))
    names = [f"c{i}" for i in range(columns)]
    return dict.fromkeys(names, size), dict(zip(names, out))


def job_of(session, **more):
    """A run's job with the real estimator, on one thread."""

    def fit(domain, measurements, **options):
        return fastdp.fit(domain, measurements, threads=1, **options)

    return Job(schema=session.schema, epsilon=1.0, fit=fit, threads=1, **more)


class RowsPublic:
    """Public data from rows in memory (`mechanisms.base.Public`, as far as a growing model
    asks)."""

    def __init__(self, domain, columns):
        self._rows = RowsSession(domain, columns)
        self.schema = self._rows.schema

    def marginals(self, cliques, recode=None):
        shapes = self.schema.domain.recoded(recode or {})
        return {
            c: self._rows.marginal(c, recode).reshape(shapes.shape(c)).astype(np.int64)
            for c in cliques
        }
