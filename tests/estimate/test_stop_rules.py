"""When a fit by mirror descent ends, by each of its rules."""

import math
from types import SimpleNamespace

import pytest

from fastdp.estimate.descent.optimisers import Stop

WINDOW = Stop.WINDOW
"""Losses over which a relative fall is looked for."""


def level_of(rows: int, slack: float) -> float:
    """The loss that the noise explains: half the rows, and `slack` standard deviations of that."""
    return rows / 2 + slack * math.sqrt(rows / 2)


def measured(rows: int, fits: bool, looks: list) -> SimpleNamespace:
    """Measurements whose orders fit or not; each look at them is noted."""

    def orders_fit(at):
        looks.append(at)
        return fits

    return SimpleNamespace(rows=rows, orders_fit=orders_fit)


@pytest.mark.parametrize("rows, slack", [(8, 0.0), (8, 2.0), (50, 1.0)])
def test_noise_ends_a_fit_whose_loss_is_below_the_level(rows, slack):
    looks: list = []
    stop = Stop("noise", measured(rows, True, looks), 1e-3, 40, slack)
    assert stop(level_of(rows, slack) + 1e-9, 7, 7) == ""
    assert looks == [], "the orders are not looked at before the loss is small enough"
    assert stop(level_of(rows, slack) - 1e-9, 7, 7) == "noise level"
    assert looks == [7]


@pytest.mark.parametrize("rows, slack", [(8, 0.0), (8, 2.0), (50, 1.0)])
def test_orders_that_do_not_fit_are_looked_at_every_half_window(rows, slack):
    looks: list = []
    stop = Stop("noise", measured(rows, False, looks), 1e-3, 40, slack)
    calls = (7, 6 + WINDOW // 2, 7 + WINDOW // 2)
    for call in calls:
        assert stop(level_of(rows, slack) - 1e-9, call, call) == ""
    assert looks == [calls[0], calls[2]]


def test_the_number_of_calls_ends_any_fit():
    stop = Stop("noise", measured(8, False, []), 1e-3, 40, 0.0)
    assert stop(100.0, 0, 39) == ""
    assert stop(100.0, 0, 40) == "iterations"
    assert stop(100.0, 0, 41) == "iterations"


def calls_until_tolerance(losses) -> int | None:
    """How many losses a fit to a tolerance of 1e-3 takes; None: it goes on."""
    stop = Stop("tol", SimpleNamespace(rows=2, orders_fit=None), 1e-3, None)
    return next((i for i, loss in enumerate(losses, 1) if stop(loss, None, i)), None)


def test_tolerance_ends_a_fit_that_does_not_fall_over_a_window():
    assert calls_until_tolerance([5.0] * 3 * WINDOW) == WINDOW + 1
    assert calls_until_tolerance([5.0 * 0.99995**i for i in range(99)]) == WINDOW + 1
    assert calls_until_tolerance([5.0 * 0.999**i for i in range(99)]) is None


def test_tolerance_ends_a_fit_at_its_best_loss_or_long_after_it():
    risen = [5.0] * 5 + [6.0] * 300
    back_again = [5.0] * 5 + [6.0] * 60 + [5.0]
    risen_late = [5.0 * 0.99**i for i in range(150)] + [6.0] * 300
    assert calls_until_tolerance(risen) == 10 * WINDOW + 1
    assert calls_until_tolerance(back_again) == 66
    assert calls_until_tolerance(risen_late) == 299, "half of all losses"


def test_a_fit_that_forgets_its_losses_is_judged_from_there_on():
    stop = Stop("tol", SimpleNamespace(rows=2, orders_fit=None), 1e-3, None)
    assert [stop(5.0, None, 1) for _ in range(WINDOW)] == [""] * WINDOW
    stop.forget(5.0)
    ends = [stop(5.0, None, 1) for _ in range(WINDOW)]
    assert ends[-2:] == ["", "tolerance"]


def test_time_of_the_flow_ends_a_fit():
    stop = Stop("iters", SimpleNamespace(rows=2, orders_fit=None), 0.0, None, flow=2.0)
    assert stop(1.0, None, 1, 1.9) == ""
    assert stop(1.0, None, 1, 2.0) == "time"
