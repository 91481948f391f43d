"""bench.tables keeps what other runs measured, and its peers get a budget that is what it says."""

import math

from bench import tables_mbi


def test_rho_of_the_peers_meets_epsilon_and_delta():
    """Of rho-zCDP, delta at epsilon is at most the least over alpha of the conversion; a little more rho
    breaks it."""

    def delta_of(rho, epsilon):
        alphas = (1.01 + 0.01 * i for i in range(20_000))
        return min(math.exp((a - 1) * (a * rho - epsilon) + a * math.log1p(-1 / a)) / (a - 1) for a in alphas)

    for epsilon, delta in ((1.0, 1e-9), (0.1, 1e-5)):
        rho = tables_mbi.rho_of(epsilon, delta)
        assert delta_of(rho, epsilon) <= delta * (1 + 1e-3)
        assert delta_of(1.02 * rho, epsilon) > delta
