"""Every planted bug is caught by some check. Each check passes on the real program (see the other
files of this folder).

A bug is a patch; `caught` says by what: an assertion of an audit, or an error with which the
program itself refuses to go on.
"""

import math
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from msgspec.structs import force_setattr

from fastdp.engines.local import LocalCounter
from fastdp.errors import PrivacyError
from fastdp.privacy import budget, noise, scale
from fastdp.privacy.accountant import Threshold
from fastdp.privacy.ledger import Ledger, Reservation
from fastdp.queries import AdaGrid
from fastdp.release import (
    distances,
    filtered_marginals,
    gateway,
    histogram_plan,
    keyselect,
    marginal_plan,
    reserve,
)
from fastdp.release.gateway import Request
from fastdp.release.marginal_plan import MarginalPlan
from fastdp.schema import Schema
from fastdp.tables import bound, idvalues

from . import checks
from .checks import asked, fails, first_without_noise, small_table
from .test_distances import contrast, guess, look
from .world import CLIP, DELTA, EPSILON, SCHEMA, Swap, ask_everything, open_session


def test_noise_for_half_the_clip_is_found():
    """Noise for half the clip, counts for the whole one."""
    real = marginal_plan.plan_marginal

    def planted(domain, clip, request, sizes):
        return real(domain, clip // 2, request, sizes)

    with patch.object(marginal_plan, "plan_marginal", planted):
        assert "more than the noise covers" in fails(checks.neighbours, 20, seed=1)
        assert "leaks" in fails(checks.audit, 40, seed=5)


def test_missing_square_root_of_the_count():
    """Every one of four measurements gets the whole mu, and the sum of squares is not added up."""

    def largest(events):
        return max((Fraction(budget.mu_of(e)) ** 2 for e in events), default=Fraction(0))

    def greedy(session):
        whole = [Request(c, session.mu) for c in (("a",), ("b",), ("c",), ("a", "b"))]
        return session.measure(whole, "all")

    assert "does not cover" in fails(greedy, open_session(Swap(small_table())))
    with patch.object(budget, "mu2", largest), asked(greedy):
        assert "more than the noise covers" in fails(checks.neighbours, 50, seed=1)


@pytest.mark.parametrize("ask", [ask_everything, look, guess])
def test_counts_that_are_not_clipped_are_found(ask):
    with patch.object(bound, "user_weights", lambda table, clip: None), asked(ask):
        assert "more than the noise covers" in fails(checks.neighbours, 50, seed=1)


@pytest.mark.parametrize("cast_back", [False, True])
def test_sums_in_single_precision_are_found(cast_back):
    """Weights added up in single precision: every addition to a large cell rounds the same way."""

    def planted(self, cliques, clip, **_):
        weights = bound.user_weights(self.table, clip)[self.table.user].astype(np.float32)
        tables = {}
        for clique in cliques:
            sums = np.zeros(self.table.domain.shape(clique), np.float32)
            np.add.at(sums, tuple(self.table.codes[a] for a in clique), weights)
            tables[clique] = sums.astype(np.int64) if cast_back else sums
        return tables

    with patch.object(LocalCounter, "marginals", planted):
        if cast_back:
            complaint = fails(checks.neighbours, 100, seed=1, base_rows=20_000, base_users=5_000)
            assert "more than the noise covers" in complaint
        else:
            assert "int64" in fails(checks.neighbours, 5, seed=1)


def test_answers_that_add_up_to_the_true_total_are_found():
    """Answers shifted so that they add up to the data's own total."""
    real = MarginalPlan.noisy

    def planted(plan, counts, seed):
        noisy = real(plan, counts, seed)
        if plan.query is None:
            noisy = noisy + (counts.sum() - noisy.sum()) // noisy.size
        return noisy

    with patch.object(MarginalPlan, "noisy", planted):
        assert "totals" in fails(checks.residuals, seed=9)


def test_noise_that_is_used_twice_is_found():
    real = noise.gaussian

    def planted(sigma, size, **_):
        return real(sigma, size, seed=1)

    with patch.object(noise, "gaussian", planted):
        assert "same noise" in fails(checks.independence)


@pytest.mark.parametrize("ask", [ask_everything, look])
def test_an_answer_without_noise_is_found(ask):
    with first_without_noise(), asked(ask):
        assert "without noise" in fails(checks.residuals, seed=9)


def resume(folder):
    """A run that dies after its answers were stored shows the same answers when it comes back."""
    engine = Swap(small_table())
    options = {"ledger": Ledger(folder / "b.db"), "dataset": "d", "run": "r"}
    if not (folder / "b.db").exists():
        options["ledger"].open("d", epsilon=EPSILON, delta=DELTA)
    first, again = (ask_everything(open_session(engine, **options)) for _ in range(2))
    for x, y in zip(first, again, strict=True):
        assert (x.values == y.values).all(), "the noise was drawn again"


def test_noise_redrawn_on_resume(tmp_path):
    resume(tmp_path)
    real = Reservation.enter

    def planted(self, *arguments, **facts):
        real(self, *arguments, **facts)

    with (
        patch.object(Reservation, "enter", planted),
        patch.object(Reservation, "store", lambda self, part, number, arrays: list(arrays)),
    ):
        (tmp_path / "other").mkdir()
        assert "drawn again" in fails(resume, tmp_path / "other")


def charged_first(folder):
    """Whenever the engine counts, the step is in the ledger on disk already, and all of it is
    charged in the end."""
    path = folder / "b.db"
    Ledger(path).open("d", epsilon=EPSILON, delta=DELTA)

    class Watchful(Swap):
        calls = 0

        def marginals(self, cliques, clip):
            self.calls += 1
            steps = [s for e in Ledger(path).entries("d") for s in e["steps"]]
            assert len(steps) == self.calls, "counted before it was charged"
            assert not steps[-1]["answered"]
            return super().marginals(cliques, clip)

    reserved = reserve.reserve(
        SCHEMA,
        [reserve.BudgetRequest(epsilon=EPSILON, delta=DELTA, clip=CLIP)],
        ledger=path,
        dataset="d",
    )
    engine = Watchful(small_table())
    (session,) = reserved.sessions(engine)
    ask_everything(session)
    reserved.finish()
    assert engine.calls == 2
    assert Ledger(path).spent("d")["mu"] == pytest.approx(session.mu)


def test_a_release_that_skips_the_ledger_is_found(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    charged_first(tmp_path / "a")
    with (
        patch.object(Reservation, "enter", lambda self, *arguments, **facts: None),
        patch.object(Reservation, "store", lambda self, part, number, arrays: list(arrays)),
    ):
        # the engine's complaint is an error behind the session, so only its kind comes out
        assert "AssertionError" in fails(charged_first, tmp_path / "b")


def null_ids(policy):
    """Rows without an id: dropped, or each its own user of weight 1, as the schema says; never
    joined to anybody."""
    import polars as pl

    from fastdp.engines.local import local
    from fastdp.tables.ingest import read

    plain = {
        "user": {"column": "who", "max_rows": 2, "null": policy},
        "columns": {"a": {"kind": "categorical", "values": ["x", "y"]}},
    }
    schema = Schema.from_dict(plain)
    frame = pl.DataFrame({"who": [1, 1, 1, 1, None, None, None], "a": ["x"] * 4 + ["y"] * 3})
    counts = local(read(frame, schema), 1).marginals([("a",)], 2)[("a",)]
    expected = [2 << 20, 0 if policy == "drop" else 3 << 20]
    assert counts[:2].tolist() == expected, "a null id is counted wrongly"


def test_null_id_kept_or_joined_to_somebody():
    null_ids("drop")
    null_ids("own")
    with patch.object(idvalues, "has_id", lambda ids: None):
        assert "null id" in fails(null_ids, "drop")
    with patch.object(idvalues, "normal", lambda ids, dtype=None: ids.fill_null(1)):
        assert "null id" in fails(null_ids, "own")


PLANS = {
    "marginal": lambda: marginal_plan.plan_marginal(SCHEMA.domain, CLIP, Request(("a",), 0.3)),
    "users": lambda: histogram_plan.plan_users(3, 0.3, None),
    "pure": lambda: histogram_plan.plan_users(3, None, 0.3),
    "guesses": lambda: distances.plan_guesses(SCHEMA.domain, CLIP, [("a", "b")], {}, 0.3, "g"),
    "contrasts": lambda: distances.plan_contrasts(SCHEMA.domain, CLIP, [("a", "b")], 0.3, "c"),
    "filtered": lambda: filtered_marginals.plan_filtered(
        SCHEMA.domain, CLIP, clique=("a", "b"), mu=0.3, lifted=1.0, most=100, label="f"
    ),
    "keys": lambda: keyselect.release_keys(
        None, None, SCHEMA.columns["a"], SCHEMA, 1, Threshold(0.3, 1e-6), "k", None
    ),
    "a run": lambda: ask_everything(open_session(Swap(small_table()))),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_noise_rounded_down_is_refused_by_every_plan(plan):
    def planted(square):
        return math.nextafter(budget.root_down(square), 0.0)

    real = scale.laplace_scale
    with (
        patch.object(scale, "root_up", planted),
        patch.object(scale, "laplace_scale", lambda *a: math.nextafter(real(*a), 0.0)),
        pytest.raises(PrivacyError, match="does not cover"),
    ):
        plan()


ASKED = {
    "plan_marginal": lambda session: session.measure([Request(("a",), 0.1)], "m"),
    "plan_filtered": lambda session: session.filtered(("a", "b"), mu=0.1, lifted=1.0, label="f"),
    "plan_distances": look,
    "plan_guesses": guess,
    "plan_contrasts": contrast,
}


@pytest.mark.parametrize("name", ASKED)
def test_a_plan_whose_noise_shrank_after_its_check_is_refused_at_the_draw(name):
    module = marginal_plan if name == "plan_marginal" else gateway
    real = getattr(module, name)
    session = open_session(Swap(small_table()))

    def planted(*arguments, **named):
        plan = real(*arguments, **named)
        force_setattr(plan, "sigma", plan.sigma / 2)
        return plan

    with patch.object(module, name, planted), pytest.raises(PrivacyError, match="cover"):
        ASKED[name](session)


def test_child_coefficients_forgotten_in_query_or_noise():
    """The children of a grid measured at full weight: columns longer than 1, refused before
    anything is drawn."""
    ones = property(lambda self: (np.ones(self.rows, np.int64), np.ones(self.rows, np.int64)))
    with patch.object(AdaGrid, "coef2", ones), pytest.raises(PrivacyError, match="norm above 1"):
        ask_everything(open_session(Swap(small_table())))
    with (
        patch.object(AdaGrid, "coef2", ones),
        patch.object(AdaGrid, "column_norm2", lambda self: Fraction(1)),
        pytest.raises(PrivacyError, match="smaller column norm"),
    ):
        ask_everything(open_session(Swap(small_table())))
    # The query knows its scalars, but all rows get the noise of scalar 1: the check before the draw
    # sees it.
    with (
        patch.object(scale, "row_sigmas", lambda sigma, coef2: sigma),
        pytest.raises(PrivacyError, match="does not cover"),
    ):
        ask_everything(open_session(Swap(small_table())))
