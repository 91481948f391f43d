"""Numbers that were asked for: one user moves a vector by no more than the noise covers, the bound
is met, the step is charged before it is counted, and planted bugs are caught."""

import math
from unittest.mock import patch

import numpy as np
import pytest

from fastdp.errors import FastdpError, PrivacyError, UsageError
from fastdp.numbers import encoding_grid, sum_estimates, typed
from fastdp.numbers.encoding_grid import octaves
from fastdp.numbers.encodings import (
    CappedGroups,
    CappedSum,
    Centred,
    CentredGroups,
    DirectionHats,
    GroupCounts,
    GroupsPerUser,
    Hats,
    Histogram,
    Users,
    VectorLengths,
)
from fastdp.numbers.sums_plan import SumsPlan
from fastdp.numbers.user_values import UserValues
from fastdp.privacy import noise, release_checks, scale
from fastdp.privacy.ledger import Ledger, Reservation
from fastdp.release import reserve, user_vectors

from ..numbers.test_encodings import GROUPS, users_of
from .replay.audit import audit_world
from .world import CLIP, DELTA, EPSILON, SCHEMA, no_noise, open_session, quick_accountant

NUMBER = typed.check("count of users where rows > 1", SCHEMA)
ASKED = [
    Users(),
    Centred(),
    GroupCounts(groups=GROUPS, most=2),
    CentredGroups(groups=GROUPS, most=2),
    Histogram(edges=(0, 3, 100)),
    CappedSum(cap=1000, signed=True),
    CappedGroups(cap=1000, groups=GROUPS, signed=True),
    Hats(corners=octaves(1 << 40), signed=True),
    Hats(corners=octaves(1 << 50), of="residual", rough=35, shift=3, signed=True),
    DirectionHats(corners=octaves(1 << 40), groups=GROUPS, signed=True),
    GroupsPerUser(edges=(1, 2, 3, 5)),
    CappedSum(cap=1000, of="residual", rough=35, signed=True, largest=500, refunds=False),
    CappedGroups(cap=1000, groups=GROUPS, of="residual", rough=9, signed=True, largest=500),
    VectorLengths(edges=(100, 800), groups=GROUPS, signed=True),
    CappedGroups(cap=2 << 10, groups=GROUPS, of="residual", shift=10),
]


class Held:
    """An engine onto values of users."""

    schema = SCHEMA
    has_users = True

    def __init__(self, values=None):
        self.values = values

    def user_sums(self, plan):
        return plan.encoding.add_up(self.values)


def joined(a, b):
    return UserValues(
        np.concatenate([a.offsets, b.offsets[1:] + a.offsets[-1]]),
        *(np.concatenate([getattr(a, f), getattr(b, f)]) for f in ("group", "value", "weight")),
    )


def ask(session, encoding):
    return session.user_vector(SumsPlan(NUMBER, encoding), mu=session.mu, label="asked")


def neighbours(encoding, pairs=15, seed=1):
    """Data sets that differ in one user: (difference / noise)^2 is at most mu^2; some pair comes
    near to it."""
    rng = np.random.default_rng(seed)
    closest = 0.0
    engine = Held()
    with quick_accountant(), no_noise():
        for _ in range(pairs):
            base = users_of(rng, int(rng.integers(0, 20)))
            engine.values = base
            session = open_session(engine)
            without = ask(session, encoding)
            engine.values = joined(base, users_of(rng, 1))
            there = ask(open_session(engine), encoding)
            moved = np.sum(((there.values - without.values) / there.sigma) ** 2)
            assert moved <= session.mu**2 * (1 + 1e-9), "more than the noise covers"
            closest = max(closest, moved / session.mu**2)
    assert closest > 0.99, "the bound is never met: the noise is larger than it needs to be"


@pytest.mark.parametrize("encoding", ASKED, ids=lambda e: type(e).__name__)
def test_one_user_moves_a_vector_by_what_the_noise_covers(encoding):
    neighbours(encoding)


def fails(encoding):
    with pytest.raises((AssertionError, FastdpError)) as caught:
        neighbours(encoding)
    return str(caught.value)


def test_hats_without_the_lower_weight():
    """Each user adds 1 to both corners, as a careless interpolation would."""
    real = encoding_grid.hat_weights

    def planted(x, corners):
        at, lower, _ = real(x, corners)
        return at, lower, np.full_like(lower, encoding_grid.UNIT)

    with patch.object(encoding_grid, "hat_weights", planted):
        assert "more than the noise covers" in fails(ASKED[7])
        assert "more than the noise covers" in fails(ASKED[9])


def test_directions_divided_by_the_largest_entry():
    with patch.object(encoding_grid, "ceil_root", lambda squares: np.maximum(squares, 1) ** 0 + 0):
        assert fails(ASKED[9])


def test_a_cap_that_is_left_out_is_found():
    def planted(self, values):
        first = values.offsets[:-1][np.diff(values.offsets) > 0]
        return np.array([values.value[first].sum()], np.int64)

    with patch.object(CappedSum, "block", planted):
        assert "more than the noise covers" in fails(ASKED[5])


def test_every_group_of_a_user_counts():
    """A bound of two groups in the noise, and none in the counts."""
    real = encoding_grid.first_entries

    def planted(values, counts, groups, most):
        return real(values, counts, groups, groups)

    with patch.object(encoding_grid, "first_entries", planted):
        assert "more than the noise covers" in fails(ASKED[2])
        assert "more than the noise covers" in fails(ASKED[3])


def test_a_user_who_counts_for_every_length_that_it_exceeds():
    real = VectorLengths.block

    def planted(self, values):
        return real(self, values)[::-1].cumsum()[::-1]

    with patch.object(VectorLengths, "block", planted):
        assert "more than the noise covers" in fails(ASKED[13])


def test_predicates_that_are_not_centred():
    def planted(self, values):
        first = values.offsets[:-1][np.diff(values.offsets) > 0]
        return np.array([np.sum(values.value[first] > 0) * encoding_grid.UNIT], np.int64)

    with patch.object(Centred, "block", planted):
        assert "more than the noise covers" in fails(ASKED[1])


def test_noise_for_half_the_sensitivity():
    real = scale.gaussian_sigma

    def planted(sensitivity2, mu):
        return real(sensitivity2, mu) / 2

    with patch.object(user_vectors.scale, "gaussian_sigma", planted):
        assert "does not cover" in fails(ASKED[7])


def test_mu_of_another_release():
    """The charge is checked against the whole: two vectors cannot both take all of mu."""
    session = open_session(Held(users_of(np.random.default_rng(1), 5)))
    ask(session, ASKED[0])
    with pytest.raises(FastdpError, match="cover"):
        ask(session, ASKED[1])


def test_only_proved_encodings_are_counted():
    class Mine(Users, frozen=True):
        pass

    session = open_session(Held(users_of(np.random.default_rng(1), 5)))
    with pytest.raises(PrivacyError, match="encoding"):
        ask(session, Mine())
    with pytest.raises(UsageError, match="mu"):
        session.user_vector(SumsPlan(NUMBER, Users()), mu=-1.0, label="x")


def test_charged_before_it_is_counted(tmp_path):
    path = tmp_path / "b.db"
    Ledger(path).open("d", epsilon=EPSILON, delta=DELTA)

    class Watchful(Held):
        calls = 0

        def user_sums(self, plan):
            self.calls += 1
            steps = [s for e in Ledger(path).entries("d") for s in e["steps"]]
            assert len(steps) == self.calls, "counted before it was charged"
            assert not steps[-1]["answered"]
            return super().user_sums(plan)

    def run():
        engine = Watchful(users_of(np.random.default_rng(1), 50))
        options = {"epsilon": EPSILON, "delta": DELTA, "clip": CLIP}
        reserved = reserve.reserve(
            SCHEMA, [reserve.BudgetRequest(**options)], ledger=path, dataset="d"
        )
        (session,) = reserved.sessions(engine)
        for encoding in ASKED[:2]:
            plan = SumsPlan(NUMBER, encoding)
            session.user_vector(plan, mu=session.mu * math.sqrt(0.5), label="x")
        assert engine.calls == 2
        reserved.finish()
        return session

    session = run()
    assert Ledger(path).spent("d")["mu"] == pytest.approx(session.mu)
    with (
        patch.object(Reservation, "enter", lambda self, *a, **b: None),
        patch.object(Reservation, "store", lambda self, part, number, arrays: list(arrays)),
        pytest.raises(FastdpError, match="AssertionError"),
    ):
        path = tmp_path / "c.db"
        Ledger(path).open("d", epsilon=EPSILON, delta=DELTA)
        run()


def test_answers_have_noise_of_the_stated_size():
    """400 vectors: the mean square of noise over sigma is 1 within 5 standard deviations."""
    values = users_of(np.random.default_rng(1), 20)
    encoding = Hats(corners=octaves(1 << 20))
    exact = encoding.add_up(values) / encoding.unit
    found = ask(open_session(Held(values)), encoding)
    gaps = [(found.values - exact) / found.sigma]
    for seed in range(20):
        found = ask(open_session(Held(values), seed=seed), encoding)
        gaps.append((found.values - exact) / found.sigma)
    squares = np.concatenate(gaps) ** 2
    assert abs(squares.mean() - 1) < 5 * math.sqrt(2 / len(squares))
    real = noise.gaussian
    with patch.object(noise, "gaussian", lambda sigma, size, **o: real(sigma, size, **o) // 2):
        halved = ask(open_session(Held(values), seed=1), encoding)
    assert np.mean(((halved.values - exact) / halved.sigma) ** 2) < 0.6


@pytest.mark.parametrize("encoding", ASKED, ids=lambda e: type(e).__name__)
def test_a_statement_whose_noise_is_too_small_is_found(encoding):
    session = open_session(Held(users_of(np.random.default_rng(1), 5)))
    ask(session, encoding)
    (line,) = session.releases
    assert list(release_checks.release_problems(line, CLIP)) == []
    wrong = [
        {"sigma": line["sigma"] * (1 - 1e-6)},
        {"norm2": line["norm2"] / 2},
        {"norm2": line["norm2"] / 2, "sensitivity": math.sqrt(line["norm2"] / 2)},
        {"encoding": "Unknown"},
        {"encoding": "Centred", "sigma": line["sigma"] / 3},
    ]
    for change in wrong:
        assert (
            list(release_checks.release_problems(line | change, CLIP))
            or change.get("encoding") == line["encoding"]
        )


def test_a_cap_that_follows_the_data_is_found(monkeypatch):
    """Planted: the cap is the corner above the largest true amount, which no release showed. Replayed
    with the same noisy answers, the neighbour asks another question."""
    largest = [0]
    real = Hats.block

    def block(self, values):
        largest[0] = int(values.value.max(initial=0))
        return real(self, values)

    def chosen_cap(full, corners, measured, noise=0.0):
        return int(corners[min(int(np.searchsorted(corners, largest[0])), len(corners) - 1)])

    monkeypatch.setattr(Hats, "block", block)

    def busiest(c):
        return min(largest[0].bit_length(), len(c) - 1)

    monkeypatch.setattr(sum_estimates, "chosen_cap", chosen_cap)
    monkeypatch.setattr(sum_estimates, "busiest", busiest)
    found, _ = audit_world("numbers", 16)
    assert found, "the replay audit did not see it"
