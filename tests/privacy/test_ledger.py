"""The ledger: budgets as filters, resume, tampering, roll-back, and errors that say what to do."""

import json
import math
import os
import shutil
import sqlite3
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp.errors import BudgetError, LedgerError, UsageError
from fastdp.privacy import gdp
from fastdp.privacy.accountant import BoundedRange, Gaussian, Pure, compose
from fastdp.privacy.budget import Budget, Totals, combined_mu, mu2, root_down, root_up
from fastdp.privacy.ledger import Ledger

MU1 = gdp.mu_from(1.0, 1e-5)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(path):
    found = Ledger(path)
    found.open("trips", epsilon=1.0, delta=1e-5)
    return found


def run_once(ledger, run="r", mu=0.1, answers=None):
    reservation = ledger.reserve("trips", run, [Gaussian(mu)], "plan")
    assert reservation.enter(0, 0, "question", "step", [Gaussian(mu)]) is None
    reservation.store(0, 0, [np.arange(3)] if answers is None else answers)
    return reservation


def test_a_missing_ledger_is_an_error_until_a_data_set_is_opened(path):
    ledger = Ledger(path)
    for call in (ledger.datasets, ledger.entries, ledger.verify, lambda: ledger.spent("trips")):
        with pytest.raises(LedgerError, match="no ledger"):
            call()
    assert not path.exists()
    ledger.open("trips", epsilon=1.0, delta=1e-5)
    assert ledger.spent("trips")["epsilon"] == 0


def test_urls_and_paths_name_the_same_file(path):
    Ledger(f"sqlite://{path}").open("trips", mu=0.5)
    assert Ledger(str(path)).datasets() == {"trips": {"mu": 0.5}}
    for wrong in ("postgres://host/db", "sqlite://host/db", "", "sqlite:"):
        with pytest.raises(UsageError):
            Ledger(wrong)


def test_a_budget_cannot_be_changed_or_doubled(ledger):
    ledger.open("trips", epsilon=1.0, delta=1e-5)
    with pytest.raises(LedgerError, match="another budget"):
        ledger.open("trips", epsilon=2.0, delta=1e-5)


@pytest.mark.parametrize(
    "budget",
    [
        {},
        {"epsilon": 1.0, "mu": 1.0},
        {"epsilon": 0.0, "delta": 0.1},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": math.nan, "delta": 0.1},
        {"mu": -1.0},
        {"mu": 1.0, "delta": 0.1},
        {"epsilon": 1.0, "delta": 0.1, "pure": 1.0},
        {"epsilon": 1.0, "delta": 0.0, "pure": 0.5},
    ],
)
def test_bad_budgets_are_refused(ledger, budget):
    with pytest.raises(UsageError):
        ledger.open("other", **budget)


def test_several_data_sets_must_be_named(ledger):
    assert ledger.reserve(None, "one", [Gaussian(0.01)]).run == "one"
    ledger.open("other", mu=1.0)
    with pytest.raises(LedgerError, match="several data sets"):
        ledger.reserve(None, "two", [Gaussian(0.01)])
    with pytest.raises(LedgerError, match="not open"):
        ledger.reserve("third", "two", [Gaussian(0.01)])


def test_the_whole_budget_can_be_spent_once(ledger):
    ledger.reserve("trips", "all", [Gaussian(MU1)])
    assert ledger.spent("trips")["epsilon"] == pytest.approx(1.0, rel=1e-9)
    assert ledger.remaining("trips")["mu"] == 0
    with pytest.raises(BudgetError, match="left"):
        ledger.reserve("trips", "more", [Gaussian(1e-9)])
    assert [e["run"] for e in ledger.entries("trips")] == ["all"]


def test_a_joint_reservation_is_all_or_nothing(ledger):
    with pytest.raises(BudgetError):
        ledger.reserve("trips", "both", [Gaussian(MU1 * 0.8), Gaussian(MU1 * 0.8)])
    assert ledger.entries("trips") == []
    ledger.reserve("trips", "both", [Gaussian(MU1 * 0.7), Gaussian(MU1 * 0.7)])
    assert ledger.spent("trips")["mu"] == pytest.approx(MU1 * 0.7 * math.sqrt(2))


def test_steps_stay_within_their_part(ledger):
    reservation = ledger.reserve("trips", "r", [Gaussian(0.1), Gaussian(0.2)])
    reservation.enter(0, 0, "a", "first", [Gaussian(0.08)])
    with pytest.raises(BudgetError, match="reservation does not cover"):
        reservation.enter(0, 1, "b", "second", [Gaussian(0.08)])
    reservation.enter(1, 0, "c", "other part", [Gaussian(0.2)])
    assert reservation.left(0)["mu"] == pytest.approx(0.06)
    assert reservation.left(1)["mu"] == 0


def test_pure_parts_take_pure_events_only(ledger):
    reservation = ledger.reserve("trips", "r", [Pure(0.5)])
    with pytest.raises(BudgetError):
        reservation.enter(0, 0, "a", "gauss", [Gaussian(0.001)])
    reservation.enter(0, 0, "a", "laplace", [Pure(0.2)])
    reservation.enter(0, 1, "b", "select", [BoundedRange(0.3)])
    with pytest.raises(BudgetError):
        reservation.enter(0, 2, "c", "more", [Pure(1e-9)])


def test_stored_answers_come_back_and_are_never_replaced(ledger, path):
    first = run_once(ledger)
    again = Ledger(path).reserve("trips", "r", [Gaussian(0.1)], "plan")
    (stored,) = again.enter(0, 0, "question", "step", [Gaussian(0.1)])
    assert stored.dtype == np.int64 and stored.tolist() == [0, 1, 2]
    (kept,) = again.store(0, 0, [np.arange(3) + 7])
    assert kept.tolist() == [0, 1, 2]
    assert ledger.spent("trips")["mu"] == pytest.approx(0.1)
    first.finish()
    with pytest.raises(LedgerError, match="finished"):
        again.enter(0, 1, "x", "more", [Gaussian(0.01)])


def test_a_resumed_run_must_be_the_same_run(ledger):
    run_once(ledger)
    with pytest.raises(LedgerError, match="other settings"):
        ledger.reserve("trips", "r", [Gaussian(0.2)], "plan")
    with pytest.raises(LedgerError, match="other settings"):
        ledger.reserve("trips", "r", [Gaussian(0.1)], "another plan")
    same = ledger.reserve("trips", "r", [Gaussian(0.1)], "plan")
    with pytest.raises(LedgerError, match="another question"):
        same.enter(0, 0, "another question", "step", [Gaussian(0.1)])


def test_finish_gives_back_what_no_step_entered_and_nothing_else(ledger):
    reservation = ledger.reserve("trips", "r", [Gaussian(0.2)])
    reservation.enter(0, 0, "q", "entered, never answered", [Gaussian(0.05)])
    assert ledger.spent("trips")["mu"] == pytest.approx(0.2)
    reservation.finish()
    assert ledger.spent("trips")["mu"] == pytest.approx(0.05)
    ledger.release("r")
    assert ledger.spent("trips")["mu"] == pytest.approx(0.05)
    with pytest.raises(LedgerError, match="finished"):
        ledger.reserve("trips", "r", [Gaussian(0.2)])


def test_answers_of_any_shape_and_size_survive(ledger, monkeypatch):
    monkeypatch.setattr("fastdp.privacy.store.PIECE", 64)
    arrays = [np.arange(100), np.empty(0, np.int64), np.array([-(2**63), 2**63 - 1])]
    reservation = run_once(ledger, answers=arrays)
    found = reservation.enter(0, 0, "question", "step", [Gaussian(0.1)])
    for a, b in zip(arrays, found, strict=True):
        assert a.dtype == b.dtype and (a == b).all()


def tamper(path, sql):
    connection = sqlite3.connect(path)
    connection.execute(sql)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE chain SET body=replace(body, '0.1', '0.01') WHERE kind='step'",
        "UPDATE chain SET body=replace(body, '1.0', '9.0') WHERE kind='open'",
        "DELETE FROM chain WHERE seq=2",
        "DELETE FROM chain WHERE seq=4",
        "UPDATE chain SET seq=9 WHERE seq=4",
        "UPDATE chain SET kind='finish' WHERE kind='answer'",
        "UPDATE meta SET id='x'",
        "DROP TABLE meta",
        "DELETE FROM chain",
        "UPDATE chain SET hash='00' WHERE seq=4",
    ],
)
def test_tampering_fails_closed(ledger, path, sql):
    run_once(ledger)
    tamper(path, sql)
    for use in (ledger, Ledger(path)):
        with pytest.raises(LedgerError):
            use.verify()
    with pytest.raises(LedgerError):
        Ledger(path).reserve("trips", "new", [Gaussian(0.01)])


def test_changed_answers_are_noticed(ledger, path):
    reservation = run_once(ledger)
    tamper(path, "UPDATE answers SET data=zeroblob(24)")
    with pytest.raises(LedgerError, match="missing or were changed"):
        reservation.enter(0, 0, "question", "step", [Gaussian(0.1)])


def test_garbage_is_not_a_ledger(path):
    path.write_bytes(b"not a database, but long enough to look at" * 40)
    with pytest.raises(LedgerError):
        Ledger(path).open("trips", mu=1.0)


def test_roll_back_is_noticed(ledger, path, tmp_path):
    shutil.copy(path, tmp_path / "old.db")
    run_once(ledger)
    shutil.copy(tmp_path / "old.db", path)
    for use in (ledger, Ledger(path)):
        with pytest.raises(LedgerError, match="rolled back"):
            use.spent("trips")


def test_a_lost_or_foreign_head_fails_closed(ledger, path, tmp_path):
    run_once(ledger)
    head = path.with_name(path.name + ".head")
    kept = head.read_text()
    head.unlink()
    with pytest.raises(LedgerError, match=r"head file .* is missing"):
        Ledger(path).spent("trips")
    for wrong in ("", "{}", '{"id": "x", "seq": 1, "hash": "y"}', json.dumps({**json.loads(kept), "seq": 1})):
        head.write_text(wrong)
        with pytest.raises(LedgerError):
            Ledger(path).spent("trips")
    head.write_text(kept)
    path.unlink()
    with pytest.raises(LedgerError, match="gone"):
        Ledger(path).open("trips", epsilon=9.0, delta=1e-5)


def test_a_head_one_record_behind_is_a_crash_and_is_mended(ledger, path):
    head = path.with_name(path.name + ".head")
    ledger.reserve("trips", "r", [Gaussian(0.1)])
    before = head.read_text()
    ledger.reserve("trips", "s", [Gaussian(0.1)])
    after = head.read_text()
    head.write_text(before)
    assert Ledger(path).verify()["seq"] == 3
    assert head.read_text() == after


def test_a_locked_ledger_fails_closed(ledger, path):
    import fcntl

    with open(path.with_name(path.name + ".lock"), "r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LedgerError, match="locked"):
            Ledger(path, timeout=0.05).spent("trips")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerError):
        Ledger(path, timeout=0.05).spent("trips")
    other.close()
    assert Ledger(path).spent("trips")["events"] == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_ledger_fails_closed(ledger, path):
    path.chmod(0o400)
    with pytest.raises(LedgerError):
        Ledger(path).reserve("trips", "r", [Gaussian(0.1)])


def test_verify_finds_a_statement_in_the_chain(ledger):
    reference = run_once(ledger).describe()["reference"]
    assert ledger.verify({"ledger": reference})["seq"] == 4
    for change in ({"hash": "0" * 64}, {"seq": 99}, {"id": "x"}, {"run": "unknown"}):
        with pytest.raises(LedgerError):
            ledger.verify({"ledger": reference | change})


def test_a_local_ledger_counts_for_itself_alone(tmp_path):
    for place in (None, tmp_path / "run.db"):
        ledger = Ledger.local(place)
        ledger.reserve(None, "r", [Gaussian(5.0)]).enter(0, 0, "q", "s", [Gaussian(5.0)])
        assert not ledger.counts_other_runs
        with pytest.raises(BudgetError):
            ledger.reserve(None, "r", [Gaussian(5.0)]).enter(0, 1, "q", "s", [Gaussian(0.1)])


def test_mu_budget_and_pure_budget():
    mu = Budget.of(mu=1.0)
    assert mu.admits([Gaussian(0.5)] * 4)
    assert not mu.admits([*[Gaussian(0.5)] * 4, Gaussian(1e-9)])
    pure = Budget.of(epsilon=1.0, delta=0.0)
    assert pure.admits([Pure(0.1)] * 10) and not pure.admits([Pure(0.1)] * 11)
    assert not pure.admits([Gaussian(1e-6)])
    assert pure.left([Pure(0.25)])["pure_epsilon"] == 0.75


def test_mixed_laws_need_the_all_mu_route_or_a_part_set_aside():
    """p + epsilon(mu) <= epsilon is no filter when the split is chosen by earlier answers, so it is not
    enough."""
    mixed = [Pure(0.5), Gaussian(gdp.mu_from(0.4, 1e-5))]
    assert compose(mixed).epsilon(1e-5) < 1.0
    assert not Budget.of(epsilon=1.0, delta=1e-5).admits(mixed)
    aside = Budget.of(epsilon=1.0, delta=1e-5, pure=0.5)
    assert aside.admits(mixed)
    assert not aside.admits([Pure(0.51)])
    assert not aside.admits([Gaussian(gdp.mu_from(0.51, 1e-5))])


def test_the_adaptive_attack_on_the_mixed_rule():
    """Why: an adversary who turns to pure noise only when the loss is already high exceeds delta under that
    rule.

    Loss after Gaussian noise of m = mu0^2 is normal (m/2, m); where it is high, randomised response with the
    epsilon that the mixed rule would leave beats going on with Gaussian noise. Computed by quadrature, no
    simulation.
    """
    from scipy.stats import norm

    epsilon, delta = 1.0, 1e-5
    whole = gdp.mu_from(epsilon, delta)
    first = whole * math.sqrt(0.5)
    rest = whole * math.sqrt(0.5)
    pure = epsilon - gdp.epsilon_of(first, delta)
    loss = np.linspace(-3, 4, 400_001)
    weight = norm.pdf(loss, first**2 / 2, first) * (loss[1] - loss[0])

    def payoff(x):
        return np.maximum(0, -np.expm1(epsilon - x))

    def gaussian(x):
        a = (epsilon - x) / rest
        return norm.sf(a - rest / 2) - np.exp(epsilon - x) * norm.sf(a + rest / 2)

    up = math.exp(pure) / (1 + math.exp(pure))
    response = up * payoff(loss + pure) + (1 - up) * payoff(loss - pure)
    go_on = gaussian(loss)
    assert (weight * go_on).sum() == pytest.approx(delta, rel=1e-3)
    assert (weight * np.maximum(go_on, response)).sum() > 1.3 * delta


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-4, 0.2), min_size=1, max_size=12))
def test_the_filter_never_lets_more_in_than_the_accountant(mus):
    budget = Budget.of(epsilon=1.0, delta=1e-5)
    taken = []
    for i, mu in enumerate(mus):
        event = Gaussian(mu) if i % 3 else BoundedRange(mu)
        if budget.admits([*taken, event]):
            taken.append(event)
        left = budget.left(taken)["mu"]
        assert budget.admits([*taken, Gaussian(left)]) if left else True
    assert compose(taken).epsilon(1e-5) <= 1.0 + 1e-9


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_roots_are_rounded_the_safe_way(square):
    assert Fraction(root_up(square)) ** 2 >= square >= Fraction(root_down(square)) ** 2
    assert root_up(square) == pytest.approx(root_down(square))


def test_running_totals_are_the_sums_of_what_is_charged(ledger, path):
    """Reservations, steps and ends in any order: what the filter goes by is what the entries add up to,
    exactly."""
    rng = np.random.default_rng(1)
    for i in range(8):
        run = ledger.reserve("trips", str(i), [Gaussian(0.05), Pure(0.01)])
        for step in range(rng.integers(0, 4)):
            run.enter(0, step, "q", "s", [Gaussian(float(rng.uniform(0.001, 0.02)))])
        if rng.random() < 0.5:
            run.enter(1, 0, "q", "s", [Pure(0.003), BoundedRange(0.002)])
        if rng.random() < 0.5:
            run.finish()
    for book in (ledger, Ledger(path)):
        with book._store.transaction() as work:
            assert work.state.totals["trips"] == Totals.of(work.state.charged("trips"))


def test_combined_mu_is_rounded_up():
    events = [Gaussian(0.1)] * 7 + [Pure(0.3)]
    assert Fraction(combined_mu(events)) ** 2 >= mu2(events)
