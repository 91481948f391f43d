"""Where a flow ends: its goal, and the search for where a stride crossed the noise level."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from fastdp.estimate.flow.flow_solver import SETTLED, TRIES, WIDE, crossing, goal_of


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


@given(st.floats(0.3, 4.0), st.floats(1.1, 100), st.floats(0.01, 0.99))
def test_the_search_ends_just_below_the_noise_level(power, before, height):
    """Along a stride whose loss falls from `before` to 1: not above the level, and below it by WIDE
    of the stride's own excess at most, unless TRIES were too few."""
    wanted = 1 + height * (before - 1)

    def loss_at(share):
        return before + (1 - before) * share**power

    tried = []
    search = crossing(before, 1.0, wanted)
    share = next(search, None)
    while share is not None:
        tried.append(share)
        try:
            share = search.send(loss_at(share))
        except StopIteration:
            break

    below = [1.0, *(x for x in tried if loss_at(x) <= wanted)]
    assert loss_at(below[-1]) <= wanted and below[-1] == min(below)
    close = [loss_at(x) >= wanted - WIDE * (wanted - 1) for x in below]
    assert close[-1] or len(tried) == TRIES
    assert not any(close[:-1]), "it ends at the first share that is close enough"
    if tried:  # false position: aims just below the level on the line between both ends
        assert wanted - WIDE * (wanted - 1) <= before + (1 - before) * tried[0] < wanted
