"""Sessions without privacy for tests of mechanisms: exact counts plus, where asked, plain Gaussian
noise."""

import numpy as np

from .growing import RowsSession


class FakeSession(RowsSession):
    """Answers from given joint counts; its selections are exact and among what it was asked, as
    their epsilon."""

    def __init__(self, domain, joint, *, mu=1.0, clip=1, noise=0.0):
        self.joint = np.asarray(joint)
        cells = np.repeat(np.arange(self.joint.size), self.joint.reshape(-1))
        columns = dict(zip(domain, np.unravel_index(cells, self.joint.shape)))
        super().__init__(domain, columns, mu=mu, clip=clip, noise=noise)

    def select_l1(self, cliques, estimates, *, epsilon, **options):
        self.asked.append(epsilon)
        return super().select_l1(cliques, estimates, epsilon=epsilon, **options)


class FakeModel:
    """A model that knows its total and draws nothing."""

    def __init__(self, total):
        self.total = float(total)

    def sample(self, n, seed=None, **options):
        return {}
