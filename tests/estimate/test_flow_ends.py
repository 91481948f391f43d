"""Where a flow ends: its goal, and the way back to where it crossed the noise level."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from fastdp.estimate.flow.flow_solver import SETTLED, TRIES, WIDE, Flow, goal_of


@pytest.mark.parametrize("rows, slack", [(8, 0.0), (8, 2.0), (50, 1.0)])
def test_the_goal_is_the_noise_level_or_where_a_refined_fit_has_settled(rows, slack):
    level = rows / 2 + slack * math.sqrt(rows / 2)
    facts = SimpleNamespace(rows=rows)
    lines = SimpleNamespace(constant=rows / 9, size=rows / 3)
    noise = SimpleNamespace(stop="noise", slack=slack)
    refined = SimpleNamespace(stop="refined", slack=slack)
    settled = rows * (1 / 9 + SETTLED / 6)
    assert goal_of(noise, facts, lines).loss == pytest.approx(level)
    assert goal_of(refined, facts, lines).loss == pytest.approx(min(level, settled))


@given(st.floats(0.3, 4.0), st.floats(1.1, 100), st.floats(0.01, 0.99), st.integers(0, 9))
def test_a_flow_goes_back_to_where_it_crossed_the_noise_level(power, before, height, calls):
    """Along a stride whose loss falls from `before` to 1: not above the level, and below it by WIDE
    of the stride's own excess at most, unless TRIES calls, or those that are left, were too few.
    The state and the functionals are those of the loss."""
    wanted = 1 + height * (before - 1)
    flow = object.__new__(Flow)
    flow._at = 0.0
    flow._z = 1.0
    flow._spare = None
    flow._velocity = 2.0
    flow.loss = 1.0
    flow.f = 1.0
    flow.calls = 0
    flow.most = calls
    tried = []
    flow.engine = SimpleNamespace(team=None)

    def loss_at(share):
        return before + (1 - before) * share**power

    flow.lines = SimpleNamespace(change=lambda way, team: way / 2, loss=loss_at, active=0)
    flow._delta = [0.0]

    def arrive():
        share = flow._delta[0]
        flow._spare = share
        flow.calls += 1
        tried.append(share)
        return share

    flow._try = arrive
    flow.back(before, wanted)
    assert flow._z == flow.f != flow._at
    assert flow.loss == loss_at(flow.f) <= wanted
    close = flow.loss >= wanted - WIDE * (wanted - 1)
    assert close or len(tried) == min(TRIES, calls)
    best = [1.0, *(x for x in tried if loss_at(x) <= wanted)]
    assert flow.f == best[-1] == min(best) and all(
        not loss_at(x) >= wanted - WIDE * (wanted - 1) for x in best[:-1]
    )
    if tried:  # false position: aims just below the level on the line between both ends
        assert wanted - WIDE * (wanted - 1) <= before + (1 - before) * tried[0] < wanted
