"""A session without privacy for tests of mechanisms: exact counts plus, where asked, plain Gaussian noise."""

from types import SimpleNamespace

import numpy as np

from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.queries import Binned


class FakeDoor:
    """Answers from given joint counts; remembers what it was asked and what it cost."""

    def __init__(self, domain, joint, *, mu=1.0, clip=1, noise=0.0, user=None, seed=0):
        self.domain = Domain(domain)
        self.joint = np.asarray(joint)
        self.mu, self.clip, self.noise = mu, clip, noise
        self.schema = SimpleNamespace(user=user, max_rows_per_user=clip, domain=self.domain)
        self.rng = np.random.default_rng(seed)
        self.asked = []
        self.steps = []

    def marginal(self, clique, recode=None):
        names = list(self.domain)
        summed = self.joint.sum(axis=tuple(i for i, a in enumerate(names) if a not in clique))
        left = [a for a in names if a in clique]
        counts = summed.transpose([left.index(a) for a in clique]).reshape(-1)
        return Binned(self.domain.shape(clique), [(recode or {}).get(a) for a in clique]).product(counts)

    def measure(self, requests, label, recode=None):
        self.steps.append(label)
        out = []
        for r in requests:
            self.asked.append(r)
            exact = self.marginal(r.clique, recode)
            sigma = self.clip / r.mu
            if r.query is not None:
                exact, sigma = r.query.product(exact), r.query.row_sigma(sigma)
            values = exact + self.noise * sigma * self.rng.standard_normal(exact.shape)
            out.append(Measurement(r.clique, values.astype(float), sigma, r.query, label=label))
        return out

    def select_l1(self, cliques, estimates, *, epsilon, label, allowed, recode=None):
        self.steps.append(label)
        self.asked.append(epsilon)

        def distance(i):
            return np.abs(self.marginal(cliques[i], recode) - estimates[cliques[i]].reshape(-1)).sum()

        return max(allowed, key=distance)


class FakeModel:
    """A model that knows its total and draws nothing."""

    def __init__(self, total):
        self.total = float(total)

    def sample(self, n, seed=None, **options):
        return {}
