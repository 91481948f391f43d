"""A clip chosen in the run: one user is covered whatever the clip, nothing counts before it is
known, and planted bugs are caught.

Later measurements are chosen adaptively, so the cover is of the histogram, and of what follows it
*given* the clip: `neighbours` forces the same clip on both data sets.
"""

import copy
import math
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest

from fastdp.engines.local import LocalCounter
from fastdp.errors import LedgerError, PrivacyError, UsageError
from fastdp.privacy import clip as clip_rules, recompute
from fastdp.privacy.accountant import Gaussian
from fastdp.privacy.ledger import Ledger, Reservation
from fastdp.release import histogram_plan, marginal_plan, reserve
from fastdp.release.gateway import Request, Session
from fastdp.schema import Schema
from fastdp.tables.table import Table

from ..builders import schema_with_users
from .checks import data_and_neighbour, fails, random_codes
from .world import DELTA, EPSILON, QUERY, SIZES, Swap, loss_mean, no_noise, quick_accountant

BOUND = 200


SCHEMA = schema_with_users(SIZES, "who", max_rows=BOUND)
NOISE = [40.0, 300.0]


class Bounded(Swap):
    schema = SCHEMA


def users_table(codes, users):
    return Table.from_codes(SCHEMA, dict(zip(SIZES, codes, strict=True)), user=users)


def small_table(rows=600, users=20):
    rng = np.random.default_rng(1)
    return users_table(random_codes(rng, rows), rng.integers(0, users, rows))


def open_reserved(engine, *, schema=SCHEMA, epsilon=EPSILON, **options):
    asks = [reserve.BudgetRequest(epsilon=epsilon, delta=DELTA, clip="private")]
    reserved = reserve.reserve(schema, asks, **options)
    return reserved, reserved.sessions(engine)[0]


def ask(session):
    """A run that spends all its mu: the histogram and the clip, then two steps of marginals."""
    part = [session.mu * math.sqrt(s) for s in (0.1, 0.3, 0.3, 0.3)]
    answers = [session.choose_clip(NOISE, mu=part[0], label="rows per user")[0]]
    answers += session.measure([Request(("a",), part[1])], "first")
    return answers + session.measure(
        [Request(("a", "b"), part[2], QUERY), Request(("a", "b", "c"), part[3])], "second"
    )


@contextmanager
def forced(clip):
    """Every histogram gives this clip."""
    real = clip_rules.from_release

    def choice(values, noise, bound, sigma=None, displaced=0.2):
        return clip_rules.ClipChoice(clip, real(values, noise, bound, sigma).lines, 0.0)

    with patch.object(clip_rules, "from_release", choice):
        yield


def neighbours(pairs, seed):
    """For every clip: sum over answers of (difference / sigma)^2 is at most mu^2 of the run, and
    comes close to it."""
    rng = np.random.default_rng(seed)
    closest = 0.0
    with quick_accountant(), no_noise():
        for _ in range(pairs):
            sides = [users_table(*side) for side in data_and_neighbour(rng)]
            clip = int(rng.choice(clip_rules.candidates(BOUND)))
            with forced(clip):
                sessions = [open_reserved(Bounded(side))[1] for side in sides]
                without, there = (ask(session) for session in sessions)
            assert [d.clip for d in sessions] == [clip, clip]
            cost = loss_mean(there, without)
            assert cost <= sessions[0].cap.mu ** 2, (
                "one user changes the answers by more than the noise covers"
            )
            closest = max(closest, cost / sessions[0].cap.mu ** 2)
    assert closest > 0.999, "the bound is never met: the noise is larger than it needs to be"


def charged(folder):
    """The histogram is on the ledger, on disk, before users are counted; in the end all of mu is
    charged, and the statement's figures, its clip among them, follow from its plan."""
    path = folder / "b.db"
    Ledger(path).open("d", epsilon=EPSILON, delta=DELTA)

    class Watchful(Bounded):
        def user_histogram(self, key, cap):
            steps = [s for e in Ledger(path).entries("d") for s in e["steps"]]
            assert [(s["label"], s["answered"]) for s in steps] == [("rows per user", False)]
            return super().user_histogram(key, cap)

    reserved, session = open_reserved(Watchful(small_table()), ledger=path, dataset="d")
    ask(session)
    stated = reserved.statement()
    reserved.finish()
    assert Ledger(path).spent("d")["mu"] == pytest.approx(session.mu), "not all of it is charged"
    assert recompute.problems(stated) == [], "the statement does not add up"
    Ledger(path).verify(stated)
    return stated


def test_one_user_is_covered_at_every_clip():
    neighbours(25, seed=3)


def too_little(real):
    def planted(bound, mu, epsilon):
        event, width, sigma, grid = real(bound, mu, epsilon)
        return event, width / 2, sigma / 2, grid

    return planted


PLANTED = {
    "noise that is not scaled with the clip": (
        marginal_plan,
        "plan_marginal",
        lambda real: (
            lambda domain, clip, request, sizes: real(domain, min(clip, 10), request, sizes)
        ),
    ),
    "rows counted with the bound instead of the clip": (
        LocalCounter,
        "marginals",
        lambda real: (
            lambda self, cliques, clip=None, **options: real(self, cliques, BOUND, **options)
        ),
    ),
    "a user in every bin up to theirs: tail counts, which look much like a histogram": (
        LocalCounter,
        "user_histogram",
        lambda real: lambda self, key, cap: np.cumsum(real(self, key, cap)[::-1])[::-1].copy(),
    ),
    "a histogram with too little noise": (histogram_plan, "plan_users", too_little),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_caught(bug):
    where, name, spoilt = PLANTED[bug]
    with patch.object(where, name, spoilt(getattr(where, name))):
        assert "more than the noise covers" in fails(neighbours, 60, seed=4)


def test_planted_histogram_that_is_not_charged(tmp_path):
    real = Reservation.enter

    def charging(events_of):
        """The program with the histogram charged by other events than it costs; by None, not
        entered at all."""

        def planted(self, part, number, digest, label, events, **facts):
            if label == "rows per user":
                events = events_of(events)
            return (
                None if events is None else real(self, part, number, digest, label, events, **facts)
            )

        return patch.object(Reservation, "enter", planted)

    bugs = {
        "": lambda events: events,
        "must have a charge": lambda events: [],
        "AssertionError": lambda events: None,  # the engine's complaint, by its kind only
        "not all of it is charged": lambda events: [Gaussian(e.mu / 2) for e in events],
    }
    for number, (complaint, events_of) in enumerate(bugs.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        with charging(events_of):
            if complaint:
                assert complaint in fails(charged, folder)
            else:
                charged(folder)


def test_planted_choice_from_counts_without_noise(tmp_path):
    """The session releases one histogram and chooses by another: the statement's clip does not
    follow from it."""
    real = clip_rules.from_release
    exact = [500.0 if e == 1 else 0.0 for e in clip_rules.size_edges(BOUND)]
    calls = []

    def planted(values, noise, bound, sigma=None, displaced=0.2):
        calls.append(values)
        return real(exact if len(calls) <= 2 else values, noise, bound, sigma)

    with patch.object(clip_rules, "from_release", planted):
        assert "does not add up" in fails(charged, tmp_path)


def test_the_statement_tells_the_choice_and_lies_are_found(tmp_path):
    honest = charged(tmp_path)
    (entry,) = honest["parts"]
    choice = entry["clip_choice"]
    assert honest["bound"]["clip"] == [entry["clip"]]
    assert honest["bound"]["clip_from"] == [choice["from"]]
    assert choice["from"] == "noisy histogram of rows per user"
    again = clip_rules.from_release(choice["users"], choice["noise"], BOUND, choice["sigma"])
    assert again.clip == entry["clip"]
    assert all(
        r["sensitivity"] == entry["clip"] for r in entry["releases"] if r["kind"] == "marginal"
    )

    def lie(change):
        spoilt = copy.deepcopy(honest)
        change(spoilt["parts"][0])
        return recompute.problems(spoilt)

    assert lie(lambda p: p["clip_choice"].update(users=[0.0] * 14 + [9e6]))
    assert lie(lambda p: p["clip_choice"].update(sigma=p["clip_choice"]["sigma"] / 2))
    assert lie(lambda p: p["clip_choice"].update(lost=0.99))
    assert lie(lambda p: p["clip_choice"].update(displaced=0.3))
    assert lie(lambda p: p["clip_choice"].update(release="another"))
    assert lie(lambda p: p["releases"].append(p["releases"].pop(0)))
    assert lie(lambda p: p.update(clip=p["clip"] + 1))
    assert lie(lambda p: p.update(clip_choice={}))


def test_nothing_counts_before_the_clip_is_chosen_and_it_is_chosen_once():
    reserved, session = open_reserved(Bounded(small_table()))
    assert "to be chosen" in repr(session) and session.clip_choice is None
    for early in (
        lambda: session.clip,
        lambda: session.measure([Request(("a",), session.mu / 2)], "early"),
        lambda: session.select_l1([("a",)], {("a",): np.zeros(3)}, epsilon=0.1, label="early"),
    ):
        with pytest.raises(PrivacyError, match="choose_clip"):
            early()
    assert reserved.statement()["parts"][0]["clip"] == BOUND
    with pytest.raises(PrivacyError):
        session.clip = 3
    with pytest.raises(UsageError, match="noise"):
        session.choose_clip([math.nan], mu=session.mu / 10, label="bad")
    assert reserved.reservation.describe()["entry"]["steps"] == []
    session.choose_clip(NOISE, mu=session.mu / 10, label="rows per user")
    assert f"clip={session.clip} " in repr(session)
    for late in (
        lambda: session.choose_clip(NOISE, mu=session.mu / 10, label="again"),
        lambda: setattr(session, "clip", 3),
        lambda: setattr(session, "clip_choice", {}),
    ):
        with pytest.raises((PrivacyError, AttributeError)):
            late()


def test_without_users_the_clip_is_one():
    with pytest.raises(UsageError, match="whole number"):
        reserve.BudgetRequest(epsilon=1.0, delta=DELTA, clip="public")
    plain = Schema.from_domain(SIZES)
    asks = [reserve.BudgetRequest(epsilon=1.0, delta=DELTA, clip="private")]

    class Plain(Swap):
        schema = plain

    (session,) = reserve.reserve(plain, asks).sessions(Plain())
    assert session.clip == 1


def resumed(folder):
    """Dies between histogram and marginals; the second life has the stored histogram, so the same
    clip."""
    seen = []
    for life in range(2):
        _, session = open_reserved(Bounded(small_table()), work=folder, run="the run")
        measured, _ = session.choose_clip(NOISE, mu=session.mu / 10, label="rows per user")
        if life == 1:
            session.measure([Request(("a",), session.mu / 2)], "first")
        seen.append((measured.values.tolist(), session.clip))
    assert seen[0] == seen[1], "the histogram was drawn again"


def test_a_resumed_run_has_the_same_clip(tmp_path):
    resumed(tmp_path)


def test_planted_histogram_drawn_again_on_resume(tmp_path):
    real = Reservation.enter
    with (
        patch.object(
            Reservation,
            "enter",
            lambda self, *arguments, **facts: real(self, *arguments, **facts) and None,
        ),
        patch.object(Reservation, "store", lambda self, part, number, arrays: list(arrays)),
    ):
        assert "drawn again" in fails(resumed, tmp_path)


def test_a_resumed_run_with_another_clip_fails_closed(tmp_path):
    """Whatever changed the choice (another version, say): marginals that were charged for one clip
    are not answered for another."""
    _, session = open_reserved(Bounded(small_table()), work=tmp_path, run="the run")
    with forced(2):
        ask(session)
    _, session = open_reserved(Bounded(small_table()), work=tmp_path, run="the run")
    with forced(1), pytest.raises(LedgerError, match="different question"):
        ask(session)


def test_two_threads_cannot_choose_two_clips():
    """Both draw, and pay; the second is refused, and the clip stays that of the first."""
    _, session = open_reserved(Bounded(small_table()))
    real = Session.user_histogram
    chosen = []

    def meanwhile(self, *arguments, **options):
        with patch.object(Session, "user_histogram", real):
            if not chosen:
                chosen.append(session.choose_clip(NOISE, mu=session.mu / 10, label="first")[1].clip)
        return real(self, *arguments, **options)

    with (
        patch.object(Session, "user_histogram", meanwhile),
        pytest.raises(PrivacyError, match="in the meantime"),
    ):
        session.choose_clip(NOISE, mu=session.mu / 10, label="second")
    assert [session.clip] == chosen and session.clip_choice["release"] == "first"
