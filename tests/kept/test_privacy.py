"""Figures of the privacy arithmetic over a grid of arguments, the limits and what lies beyond them included,
as they are kept: bounds of rounding errors, clips, budgets, compositions, scales, selections."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from fastdp.privacy import accountant, calibrate, clip, crosscheck, distance, gdp, scale, select
from fastdp.privacy.accountant import BoundedRange, Gaussian, Pure, Threshold
from fastdp.privacy.budget import Budget, Totals, combined_mu, epsilon_at, pure_epsilon, root_down, root_up

from .figures import check, given

MUS = (0.0, 1e-150, 1e-9, 0.01, 0.3, 1.0, 2.5, 10.0, 17.0, 40.0, 1e6)
EPSILONS = (0.0, 1e-6, 0.1, 0.999, 1.0, 3.0, 20.0, 100.0)
DELTAS = (1e-300, 1e-15, 1e-9, 1e-3, 0.1, 0.5, 0.999)
ODD = (-1.0, math.inf, math.nan, True, "x", None, 1e-301, 1e6 + 1, 2e-301)
EVENTS = {
    "nothing": [],
    "one": [Gaussian(0.5)],
    "two": [Gaussian(0.3), Gaussian(0.4)],
    "zero": [Gaussian(0.0), Pure(0.0)],
    "pure": [Pure(0.1)] * 10,
    "range": [BoundedRange(0.5), BoundedRange(0.25)],
    "mixed": [Gaussian(1.0), Pure(0.5), BoundedRange(0.2)],
    "small": [Pure(0.01), Gaussian(2.0)],
    "keys": [Threshold(0.5, 1e-7), Gaussian(0.5)],
    "more keys": [Threshold(0.5, 4e-7), Threshold(0.1, 6e-7)],
    "lost": [Threshold(0.5, 0.7), Threshold(0.2, 0.6)],
    "large": [Gaussian(9.0), Pure(7.0)],
}


def _curve() -> Any:
    out = []
    for mu, epsilon in product(MUS[1:], EPSILONS):
        out.append([mu, epsilon, given(gdp._log_delta, mu, epsilon), given(gdp.delta_of, mu, epsilon)])
    for a, mu in product((-8.9, -8.0, -3.0, -0.1, 0.0, 0.1, 2.0, 30.0), (1e-9, 0.1, 1.0, 5.0)):
        out.append([a, mu, given(gdp._mills_gap, a, mu)])
    return out


def _conversions() -> Any:
    out = [[mu, delta, given(gdp.epsilon_of, mu, delta)] for mu, delta in product(MUS, DELTAS)]
    out += [[e, delta, given(gdp.mu_from, e, delta)] for e, delta in product(EPSILONS, DELTAS)]
    for e in (*EPSILONS, 1.001, 700.0):
        out.append([e, given(gdp.mu_of_pure, e), given(gdp.mu_of_range, e)])
    for mu in (*MUS, 1.99, 2.0, 2.01):
        out.append([mu, given(gdp.pure_epsilon_from, mu), given(gdp.range_epsilon_from, mu)])
        out.append([mu, given(gdp._logit_down, mu)])
    for odd in ODD:
        out += [given(gdp.delta_of, odd, 1.0), given(gdp.delta_of, 1.0, odd), given(gdp.epsilon_of, 1.0, odd)]
        out += [given(gdp.mu_from, odd, 1e-5), given(gdp.mu_from, 1e-300, odd), given(gdp.mu_of_pure, odd)]
    out += [given(gdp.epsilon_of, 1.0, d) for d in (1.0, 1e-300, 0.0)]
    out += [given(gdp.mu_from, 1e13, 0.5), given(gdp.mu_from, 0.0, 1e-300), given(gdp.mu_from, 1e12, 1e-9)]
    return out


def _searches() -> Any:
    """Roots of plain functions, and steps to the safe side."""
    asked: list[float] = []

    def step(x: float) -> tuple[float, float]:
        asked.append(x)
        return x * x - 2.0, 2.0 * x if x < 1.4 else 0.0

    out: list[Any] = [given(gdp._root, step, 0.0, 2.0), len(asked)]
    for limit in (1.0, 1.0 + 2.0**-52, 1.0 + 2.0**-30, 1.0 + 2.0**-21, 1.0 + 2.0**-20, 1.0 + 1e-6, 1.1):
        out.append(given(lambda: gdp._settle(1.0, 1.0, lambda m: m >= limit).hex()))
        out.append(given(lambda: gdp._settle(1.0, -1.0, lambda m: m <= 2.0 - limit).hex()))
    for value in (0.1, 0.3, 1.0, 1e22, 5e-324):
        out.append(str(gdp.least(value)))
    for square in (Fraction(2), Fraction(1, 3), Fraction(4), Fraction(10**30 + 1)):
        out += [root_up(square).hex(), root_down(square).hex()]
    for values in ([], [0.0], [0.3], [0.3, 0.4], [1e-200, 1e-200], [3.0, 0.0, 4.0], [0.1] * 10):
        out += [accountant._norm_up(values).hex(), accountant._sum_up(values).hex()]
    return out


def _compositions() -> Any:
    out = []
    for name, events in EVENTS.items():
        whole = accountant.compose(events)
        out.append([name, given(lambda: whole), given(combined_mu, events), given(pure_epsilon, events)])
        for delta in (0.0, 1e-9, 1e-6, 1.1e-6, 1e-3, 0.5, 1.0):
            out.append([name, delta, given(whole.routes, delta), given(epsilon_at, events, delta)])
            out.append(given(accountant.spent, events, delta))
        for epsilon in (0.0, 0.05, 0.75, 1.0, 3.0, 8.0, 30.0):
            out.append([name, epsilon, given(whole.delta, epsilon)])
        out.append([given(accountant.mu_of, event) for event in events])
        out.append([given(accountant.event_from_dict, event.to_dict()) for event in events])
    for odd in ({}, {"law": 1}, {"law": "x"}, {"law": "pure", "mu": 1}, {"law": "pure", "epsilon": -1}, []):
        out.append(given(accountant.event_from_dict, odd))
    return [*out, given(accountant.mu_of, 3)]


def _second() -> Any:
    """What the other accountant finds where autodp is not asked."""
    out: list[Any] = []
    for name, events in EVENTS.items():
        for delta in (-1e-9, 0.0, 1e-9, 0.01):
            out.append([name, delta, given(lambda: crosscheck._mpmath(events, delta)[1])])
    for mu, delta in product((1e-3, 0.3, 2.0, 12.0), (1e-12, 1e-3, 0.4)):
        out.append(given(lambda: float(crosscheck._epsilon(mu, delta))))
    for x in (0.01, 0.5, 0.549, 0.5494, 1.0, 5.0, 40.0, 300.0):
        from mpmath import exp, mpf, tanh, workdps

        with workdps(60):
            half = mpf(x)
            out.append(given(lambda: float(crosscheck._erfinv(tanh(half), exp(-2 * half)))))
    return out


BUDGETS = [
    Budget(),
    Budget.of(1.0),
    Budget.of(1.0, 1e-6),
    Budget.of(1.0, 1e-6, pure=0.4),
    Budget.of(1.0, 1e-6, keys=4e-7),
    Budget.of(mu=0.5),
    Budget.of(mu=0.5, keys=1e-6),
]


def _budgets() -> Any:
    out: list[Any] = [b.to_dict() for b in BUDGETS]
    for budget, (name, events) in product(BUDGETS, EVENTS.items()):
        out.append([name, given(budget.admits, events), given(budget.left, events)])
    for events in EVENTS.values():
        total = Totals.of(events)
        out += [given(lambda: total), given(total.all_gaussian), given(total.plus, total)]
        out.append(given(total.plus(total).minus, total))
    arguments = [
        *[{"epsilon": e} for e in (0, 0.0, 1, -1, math.inf, math.nan)],
        *[{"epsilon": 1.0, "delta": d} for d in (0, 1, -1, 0.999)],
        *[{"epsilon": 1.0, "delta": 1e-6, "pure": p} for p in (0, 0.5, 1.0, -0.1)],
        *[{"epsilon": 1.0, "delta": 1e-6, "keys": k} for k in (0, 5e-7, 1e-6, -1e-9)],
        *[{"mu": m} for m in (0, 1, -1, math.inf)],
        *[{"mu": 1.0, "keys": k} for k in (0, 0.5, 1.0, -0.1)],
        *[{"mu": 1.0, "delta": 0.1}, {"mu": 1.0, "epsilon": 1.0}, {}, {"epsilon": 1.0, "pure": 0.5}],
    ]
    out += [given(lambda: Budget.of(**a)) for a in arguments]
    direct = [
        *[{"delta": 0.1}, {"pure": 0.1}, {"keys": 0.1}, {"mu": 1.0, "keys": 0.1}, {"mu": 1.0, "pure": 0.1}],
        *[{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 0.0, "mu": 1.0}, {"epsilon": 1.0, "delta": 0.0}],
        *[{"epsilon": 1.0, "delta": 0.0, "pure": 0.5}, {"nothing": 1}, {"mu": "x"}, {"mu": 0.0}],
    ]
    out += [given(lambda: Budget.from_dict(a)) for a in direct]
    return out


def _clips() -> Any:
    out: list[Any] = []
    for bound in (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 100, 1000):
        out.append([bound, given(clip.size_edges, bound), given(clip.candidates, bound)])
    for cells in (0, 1, 2, 3, 100):
        out.append(given(clip.outstanding, cells))
    rng = np.random.default_rng(1)
    for bound in (1, 2, 3, 7, 40, 300):
        edges = clip.size_edges(bound)
        users = np.round(rng.exponential(300, len(edges)) / np.arange(1, len(edges) + 1) ** 2, 1)
        for noisy in (users, users - 20, users * 0.0 - 1, np.round(users + rng.normal(0, 5, len(edges)), 2)):
            for sigma in (None, 0.0, 5.0, 60.0):
                out.append([bound, sigma, given(clip.from_histogram, list(noisy), bound, sigma)])
            out.append(given(clip.from_release, list(noisy), [3.0, 400.0], bound, 5.0))
            out.append(given(clip.nonnegative, list(noisy)))
    out.append(given(clip.from_histogram, [1.0, 2.0], 7))
    for sigma in (0.9, 1.0, 1.1):
        bar = sigma * clip.outstanding(4)
        for values in ([5, 0, 0, bar], [5, 0, 0, math.nextafter(bar, 9)], [0, 0, 0, 0], [9, 9, bar, bar / 3]):
            out.append(given(clip.seen, values, sigma))
    out.append(given(clip.unit_noise, 0.5, [(10, 0.25), (1, 1.0), (400, 0.01)]))
    return [*out, *_choices()]


def _choices() -> list[Any]:
    out: list[Any] = []
    for noise, displaced in product(([], [0.0], [1.0], [30.0, 2.0], [1e15]), (0.0, 0.2, 1.0)):
        made = clip.choose([1, 4, 9], [10.0, 5.0, 1.0], noise, [1, 2, 4, 9], displaced=displaced, also=[3])
        out.append([given(lambda: made), given(lambda: made.line), given(lambda: made.put_back)])
    for sizes, users in (
        ([0], [1.0]),
        ([3], [0.0]),
        ([-1], [1.0]),
        ([1], [-1.0]),
        ([1], [math.inf]),
        ([], []),
    ):
        out.append(given(clip.choose, sizes, users, [1.0], [1, 2]))
    out.append(given(clip.choose, [1, 2], [1.0], [1.0], [1]))
    for noise in ([-1.0], [math.inf], [0.0]):
        out.append(given(clip.choose, [1], [1.0], noise, [1]))
    for displaced in (-0.1, 0.0, 1.0, 1.1):
        out.append(given(clip.choose, [1], [1.0], [1.0], [1], displaced=displaced))
    for clips, also in (([], []), ([0], []), ([1], [0]), ([1], [1]), ([2, 1], [3])):
        out.append(given(clip.choose, [1], [1.0], [1.0], clips, also=also))
    histogram = {"label": "h", "kind": "user_histogram", "attributes": ["RowsPerUser"], "cap": 1, "count": 5}
    users, noise = [50.0, 20.0, 9.0, 4.0, 1.0], [3.0, 30.0]
    chosen = clip.from_release(users, noise, 7, 2.0)
    entry = clip.described(chosen, "h", 7, users, noise, 2.0)
    out.append(given(lambda: entry))
    for change, releases, stated in [
        ({}, [histogram | {"sigma": 2.0}], chosen.clip),
        (
            {},
            [{"kind": "keys"}, {"kind": "grid"}, {"kind": "schema"}, histogram | {"sigma": 2.0}],
            chosen.clip,
        ),
        ({}, [{"kind": "marginal"}, histogram | {"sigma": 2.0}], chosen.clip),
        ({}, [histogram | {"sigma": 2.5}], chosen.clip),
        ({"sigma": None}, [histogram | {"sigma": 2.5}], chosen.clip),
        ({"lost": entry["lost"] + 0.9e-9}, [histogram | {"sigma": 2.0}], chosen.clip),
        ({"lost": entry["lost"] + 1.1e-9}, [histogram | {"sigma": 2.0}], chosen.clip),
        ({}, [histogram | {"sigma": 2.0}], chosen.clip + 1),
        ({}, [], chosen.clip),
        *(({}, [histogram | {"sigma": 2.0, key: 2}], chosen.clip) for key in histogram),
    ]:
        out.append(given(lambda: list(clip.problems(entry | change, stated, releases))))
    return out


def _scales() -> Any:
    out: list[Any] = []
    for sensitivity2, mu in product((1, 2, 10**12), (0.01, 1 / 3, 1.0, 7.0)):
        out.append(scale.gaussian_sigma(sensitivity2, mu).hex())
    for sensitivity, epsilon in product((1, 3, 10**9), (0.1, 1 / 3, 1.0, 7.0)):
        out.append(scale.laplace_scale(sensitivity, epsilon).hex())
    for width in (0.01, 0.5, 1.0, 10.0, 1e9):
        out.append(given(scale.laplace_std, width))
    one, three = np.array([1, 1, 1, 4]), np.array([3, 3, 1, 1])
    for coef2 in (None, (one, one), (one, three), (one[:0], one[:0]), (one - 1, three), (one, three - 3)):
        out.append(given(scale.row_sigmas, 2.0, coef2))
        for factor in (1.0, 1 - 1e-12):
            sigmas = given(lambda: scale.row_sigmas(2.0, coef2))
            if not isinstance(sigmas, str):
                out.append(
                    given(lambda: scale.check_gaussian(scale.row_sigmas(2.0, coef2) * factor, coef2, 4, 1.0))
                )
    for size in (0.0, 1e-9, 0.4, 0.5, 1.0, 2.0**53, 2.0**54, 2.0**54 * 1.01, 2.0**60, 2.0**62):
        out.append(given(scale.check_range, np.array([size])))
        out.append(given(scale.check_laplace, size, 1, 1.0))
    for sensitivity in (1, 2):
        for epsilon in (0.5, math.nextafter(0.5, 0)):
            out.append(given(scale.check_laplace, 2.0, sensitivity, epsilon))
    columns = [np.array([1, 1, 2, 2, 2]), np.array([5, 5, 5, 6, 6])]
    return [
        *out,
        list(scale._runs(*columns)),
        list(scale._runs(columns[0][:0])),
        list(scale._runs(columns[1])),
    ]


def _calibrations() -> Any:
    out: list[Any] = []
    for method, epsilon, delta in product(calibrate.METHODS, (0.1, 1.0, 1.5, 30.0), (0.0, 1e-9, 0.01)):
        for sensitivity, count in ((1.0, 1), (2.5, 7)):
            out.append(given(calibrate.calibrate, epsilon, delta, sensitivity, count, method))
        out.append(given(calibrate.mu_of_method, epsilon, delta, method))
    for odd in (0, -1, math.inf, math.nan, "x", None, True, 1.5, 1e300):
        out += [given(calibrate.calibrate, odd, 1e-6), given(calibrate.calibrate, 1.0, odd)]
        out += [given(calibrate.calibrate, 1.0, odd, 1.0, 1, "laplace")]
        out += [given(calibrate.calibrate, 1.0, 1e-6, odd), given(calibrate.calibrate, 1.0, 1e-6, 1.0, odd)]
        out += [given(calibrate.sigma_from_mu, odd), given(calibrate.mu_from_sigma, odd)]
        out += [given(calibrate.rho_from_mu, odd), given(calibrate.mu_from_rho, odd)]
    for mu in (0.3, 1.0, 1e-9, 12.3):
        out += [calibrate.sigma_from_mu(mu, 1.1, 3).hex(), calibrate.mu_from_sigma(mu, 1.1, 3).hex()]
        out += [calibrate.rho_from_mu(mu).hex(), calibrate.mu_from_rho(mu).hex()]
    out.append(given(calibrate.calibrate, 1.0, 1e-6, 1.0, 1, "other"))
    for wrong in product(
        (1.0, -1), (1e-6, -1), (1.0, -1), (1, -1), ("gdp", "laplace", "classic-gaussian", "other")
    ):
        out.append(given(calibrate.calibrate, *wrong))  # which of several mistakes is named
        out.append(given(calibrate.mu_of_method, wrong[0], wrong[1], wrong[4]))
    return out


def _distances() -> Any:
    out: list[Any] = []
    for epsilon, delta in product(
        (0.0, 0.1, 1.0, 29.9, 30.0, 31.0, 60.0, 900.0), (0.0, 1e-300, 1e-30, 1e-9, 0.5)
    ):
        out.append(given(distance.allowed_draws, epsilon, delta))
        out.append(given(distance.check_sampler, epsilon, delta, "a run"))
    for epsilon, draws in product((0.0, 1.0, 30.0, 700.0, 760.0), (0, 1, 2, 10**9)):
        out.append(given(distance.added_delta, epsilon, draws))
    for delta, draws in product((0.0, 1e-30, 1e-20, 1e-9), (0, 1, 2, 1 << 24, 1 << 60)):
        out.append(given(distance.largest_epsilon, delta, draws))
    return [*out, [given(distance._up_to_a_digit, v) for v in (1.0, 1.1, 9.0, 9.1, 0.0234, 7e-30)]]


def _selections() -> Any:
    """Enclosures in whole numbers, intervals found by them, seeded draws on both sides of the shortcut."""
    out: list[Any] = []
    for x in ("0", "1/3", "1", "5/2", "127", "128", "129", "1/1000000007", "40", "31", "8", "7"):
        out += [given(select.exp_enclosure, Fraction(x), p) for p in (8, 128)]
    for x, work in ((0, 20), (1, 20), (1 << 19, 20), (1 << 20, 20), (12345, 24)):
        out += [select._taylor(x, work, up) for up in (False, True)]
    enclosures = [(100, 101), (56, 57), (0, 1), (99, 99)]
    out += [given(select._locate, enclosures, u, 8) for u in range(0, 256, 3)]
    gaps = np.array([0, 3, 1, 40, 2000], np.uint64)
    for uniform in (0.0, 1e-12, 0.2, 0.5, 0.7, 0.999999, 1.0):
        out.append(given(select._locate_fast, gaps, Fraction(1, 3), uniform))
    ends = np.cumsum(np.exp(-gaps.astype(float) / 3)) / np.exp(-gaps.astype(float) / 3).sum()
    for end, off in product(ends[:3], (-1e-8, -1e-9, -3e-10, 3e-10, 1e-9, 1e-8)):
        out.append(given(select._locate_fast, gaps, Fraction(1, 3), float(end * (1 + off))))
    for size in (99_999, 100_000, 100_001):
        out.append(given(select._locate_fast, np.zeros(size, np.uint64), Fraction(1), 0.3))
    for seed in range(12):
        out.append(select.exponential([5, 9, 7, -3], 1.0, 2, seed=seed))
        out.append(select.exponential(np.zeros(100_001, np.int64), 1.0, 1, seed=seed))
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    for scores in ([], [[1]], [1.0], [True], [low, high, 0], [3], np.array([2**64 - 1, 0], np.uint64)):
        out.append(given(select._gaps, scores))
    for epsilon, sensitivity in [(1.0, 1), (0.1, 3), (0, 1), (math.inf, 1), ("x", 1), (1.0, 0), (1.0, -1)]:
        out.append(given(select._rate, epsilon, sensitivity))
    return [*out, *(given(select._rate, 1.0, odd) for odd in (True, 1.0, "1", None, np.int64(2)))]


CASES: dict[str, Any] = {
    "curve": _curve,
    "conversions": _conversions,
    "searches": _searches,
    "compositions": _compositions,
    "second accountant": _second,
    "budgets": _budgets,
    "clips": _clips,
    "scales": _scales,
    "calibrations": _calibrations,
    "distances": _distances,
    "selections": _selections,
}


@pytest.mark.parametrize("name", CASES)
def test_figures_are_those_that_are_kept(name):
    check("privacy", name, CASES[name](), tiny=0.0)
