"""Series of releases: one table a month, two numbers in each statement, a budget that lasts."""

import json
import math
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.errors import BudgetError, LedgerError, RunError, UsageError
from fastdp.mechanisms.base import Ids
from fastdp.mechanisms.cliquetree.clique_tree import CliqueTree
from fastdp.mechanisms.with_users.user_demands import GROUP
from fastdp.privacy.budget import Budget
from fastdp.privacy.series import lifetime_budget, period_epsilon
from fastdp.privacy.unit import Unit
from fastdp.release.gateway import Session
from fastdp.report.runs import promise
from fastdp.report.words import promise_words
from fastdp.run.series_horizon import horizon, horizon_lines

from ..cli.test_app import fastdp_cli

UNIT = "user-period:u:month:t:Europe/Paris"
SCHEMA = fastdp.Schema.from_dict(
    {
        "user": {"column": "u", "max_rows": 8},
        "columns": {"n": {"kind": "integer", "max": 3}, "g": {"kind": "string", "values": ["a"]}},
    }
)
OPTIONS = {"mechanism": {"mechanism": "mst", "clip": 2}, "schema": SCHEMA, "threads": 1}


def months(users: int = 40) -> pa.Table:
    """Rows of all users in every month of 2026 and in January 2027, and rows without a time."""
    rng = np.random.default_rng(0)
    who = np.tile(np.arange(users), 14)
    month = np.repeat(np.arange(14), users)
    start = (np.datetime64("2026-01") + month).astype("datetime64[us]")
    late = rng.integers(86_400 * 10**6, 27 * 86_400 * 10**6, who.size)
    time = np.where(month == 13, np.datetime64("NaT"), start + late)
    return pa.table(
        {"u": who, "t": pa.array(time), "n": rng.integers(0, 4, who.size), "g": ["a"] * who.size}
    )


def month_name(number: int) -> str:
    return f"{2026 + number // 12}-{number % 12 + 1:02d}"


def opened(path, **budget):
    ledger = fastdp.Ledger(path / "budget.db")
    budget = budget or {"period_epsilon": 1.0, "periods": 12}
    ledger.open("trips", delta=1e-6, unit=UNIT, **budget)
    return ledger


def test_lifetime_budgets_last_for_their_periods():
    """Epsilon 1 a month, and a lifetime budget of 4."""
    for periods, user, each in ((12, 3.90, 1.02), (60, 9.91, 0.43)):
        lifetime = lifetime_budget(1.0, 1e-6, periods)
        assert abs(lifetime.epsilon - user) < 0.006
        assert period_epsilon(lifetime, periods) == 1.0
        assert abs(period_epsilon(Budget.of(4.0, 1e-6), periods) - each) < 0.006


def test_twelve_months_and_no_thirteenth(tmp_path):
    """Every statement has two numbers, which `verify` recomputes; the order of months is free."""
    ledger = opened(tmp_path)
    data = months()
    order = [2, 0, 1, *range(3, 12)]
    ids = []
    for count, number in enumerate(order, 1):
        run = fastdp.synthesize(
            data,
            **OPTIONS,
            ledger=ledger,
            series="trips",
            period=month_name(number),
            out=tmp_path / f"m{count}" if count in (2, 12) else None,
        )
        numbers = run.privacy["protection"]
        assert math.isclose(numbers["user_period"]["epsilon"], 1.0, rel_tol=1e-9)
        assert numbers["user_period"]["delta"] == numbers["user"]["delta"] == 1e-6
        assert math.isclose(numbers["user"]["mu"], run.privacy["mu"] * math.sqrt(count))
        assert numbers["user"]["periods"] == count
        ids.append(run.privacy["series"]["releases"][-1]["period"])
    assert ids == [month_name(n) for n in order]
    verdict = fastdp.verify(tmp_path / "m12", ledger=ledger)
    assert math.isclose(verdict.epsilon, 1.0, rel_tol=1e-9)
    assert abs(verdict.user_epsilon - 3.90) < 0.006
    assert abs(ledger.spent("trips")["epsilon"] - 3.90) < 0.006
    call = {**OPTIONS, "ledger": ledger, "series": "trips"}
    with pytest.raises(BudgetError, match="for 12 periods, which are all released"):
        fastdp.synthesize(data, **call, period="2027-01")
    with pytest.raises(LedgerError, match="released once"):
        fastdp.synthesize(data, **call, period="2026-03")
    with pytest.raises(BudgetError, match="does not cover"):
        fastdp.synthesize(data, **call, period="2026-03", late=True)
    assert ledger.series("trips")["left"] == 0
    shown = "\n".join(horizon_lines(ledger.series("trips"), Budget(**ledger.datasets()["trips"])))
    assert "2026-12" in shown and "no further month can be released" in shown
    _forged(tmp_path / "m2", ledger)


def _forged(folder, ledger):
    """A statement that leaves an earlier release out, or states a smaller number, does not pass."""
    path = folder / "privacy.json"
    text = path.read_text()
    smaller = json.loads(text)
    smaller["protection"]["user"]["epsilon"] = 1.0
    path.write_text(json.dumps(smaller))
    with pytest.raises(RunError, match=r"protection\.user\.epsilon"):
        fastdp.verify(folder)
    shorter = json.loads(text)
    del shorter["series"]["releases"][0]
    shorter["protection"]["user"] = shorter["protection"]["user_period"]
    path.write_text(json.dumps(shorter))
    with pytest.raises(RunError, match="series differs from the ledger"):
        fastdp.verify(folder, ledger=ledger)
    path.write_text(text)
    assert fastdp.verify(folder, ledger=ledger).ok


def test_a_release_reads_the_rows_of_its_month_alone(tmp_path):
    """So other months' rows cannot cost a user-month anything; rows without a time are one."""
    schema = SCHEMA.with_period(Unit.parse(UNIT).period_of_rows("2026-02"))
    data = months()
    time = data["t"].to_numpy()
    mine = data.filter(pa.array(time.astype("datetime64[M]") == np.datetime64("2026-02")))
    one, other = (fastdp.read(rows, schema, threads=1) for rows in (data, mine))
    assert one.users == other.users == 40 and one.rows == 40
    assert all((one.codes[name] == other.codes[name]).all() for name in one.codes)
    assert one.user_hash.tolist() == other.user_hash.tolist()
    none = fastdp.read(data, SCHEMA.with_period(Unit.parse(UNIT).period_of_rows("none")), threads=1)
    assert none.rows == none.users == 40


def test_late_rows_are_a_release_of_their_own(tmp_path):
    ledger = opened(tmp_path, epsilon=4.0, periods=24)
    call = {**OPTIONS, "ledger": ledger, "series": "trips", "period": "2026-03"}
    with pytest.raises(LedgerError, match="was not released yet"):
        fastdp.synthesize(months(), **call, late=True)
    first = fastdp.synthesize(months(), **call)
    late = fastdp.synthesize(months(), **call, late=True)
    both = late.privacy["protection"]["user_period"]
    assert both["releases"] == 2
    assert math.isclose(both["mu"], first.privacy["mu"] * math.sqrt(2))
    assert "2026-03 (late)" in "\n".join(
        horizon_lines(ledger.series("trips"), Budget(**ledger.datasets()["trips"]))
    )
    rows = horizon(ledger.series("trips"), Budget(**ledger.datasets()["trips"]))
    assert len(rows) == 24  # the late release took the place of one month


def test_an_interrupted_month_is_resumed_and_not_released_twice(tmp_path):
    ledger = opened(tmp_path)
    data = months()
    call = {**OPTIONS, "ledger": ledger, "series": "trips", "period": "2026-05"}
    call["out"] = tmp_path / "may"
    real = Session.measure

    def broken(self, requests, label, **options):
        real(self, requests, label, **options)
        raise KeyboardInterrupt

    with patch.object(Session, "measure", broken), pytest.raises(KeyboardInterrupt):
        fastdp.synthesize(data, **call)
    with pytest.raises(LedgerError, match="released once"):
        fastdp.synthesize(data, **call | {"out": tmp_path / "again"})
    run = fastdp.synthesize(data, **call, resume=True)
    assert run.privacy["protection"]["user"]["releases"] == 1
    assert fastdp.verify(run, ledger=ledger).ok
    # A run that fails before its first step gives the period back.
    with patch.object(Session, "measure", side_effect=KeyboardInterrupt):
        with patch.object(Session, "user_histogram", side_effect=KeyboardInterrupt):
            with pytest.raises(KeyboardInterrupt):
                fastdp.synthesize(data, **call | {"period": "2026-06", "out": None})
    assert ledger.series("trips")["left"] == 11
    fastdp.synthesize(data, **call | {"period": "2026-06", "out": None})


def test_what_is_refused_before_the_charge(tmp_path):
    ledger = opened(tmp_path)
    data = months()
    ledger.open("plain", epsilon=1.0, delta=1e-6)
    call = {**OPTIONS, "ledger": ledger, "series": "trips", "period": "2026-01"}
    wrong = [
        ({"period": None}, "name the month"),
        ({"period": "2026-W03"}, "expected a month such as"),
        ({"series": None}, "give series= too"),
        ({"ledger": None}, "needs ledger="),
        ({"series": "plain"}, "is not a series"),
        ({"dataset": "plain"}, "leave dataset= out"),
        ({"epsilon": 3.0}, "may spend epsilon 1 at delta 1e-06"),
        ({"series": None, "period": None, "epsilon": 1.0, "dataset": "trips"}, "unit|is a series"),
        ({"schema": SCHEMA.without_users()}, "user column"),
        (
            {"mechanism": {"mechanism": "usercounts", "columns": ["n"], "unit": "event"}},
            "one event",
        ),
    ]
    for change, text in wrong:
        with pytest.raises(fastdp.errors.FastdpError, match=text):
            fastdp.synthesize(data, **call | change)
    unit = {"kind": "user-period", "period": "month", "of": "t"}
    several = fastdp.Schema.from_dict(SCHEMA.to_dict() | {"unit": unit})
    with pytest.raises(UsageError, match="several months"):
        fastdp.synthesize(
            data, schema=several, epsilon=1.0, numbers=["share of users where rows > 1"]
        )
    with pytest.raises(UsageError, match="remove the schema's"):
        fastdp.synthesize(data, **call | {"schema": several})
    with pytest.raises(LedgerError, match="protects one user in one month"):
        unzoned = SCHEMA.with_period(Unit.parse("user-period:u:month:t").period_of_rows())
        fastdp.synthesize(data, "mst", 0.1, 1e-6, schema=unzoned, ledger=ledger, dataset="trips")
    wrong_opens = [
        {"epsilon": 1.0, "delta": 1e-6, "periods": 2, "unit": "user:u"},
        {"epsilon": 1.0, "delta": 1e-6, "periods": 0, "unit": UNIT},
        {"epsilon": 1.0, "delta": 0.0, "periods": 2, "unit": UNIT},
        {"mu": 1.0, "periods": 2, "unit": UNIT},
        {"period_epsilon": 1.0, "delta": 1e-6, "unit": UNIT},
    ]
    for options in wrong_opens:
        with pytest.raises(UsageError, match="period"):
            ledger.open("another", **options)
    assert ledger.spent("trips")["events"] == 0


def test_a_table_of_several_months_states_no_number_for_a_user(tmp_path):
    unit = {"kind": "user-period", "period": "month", "of": "t"}
    schema = fastdp.Schema.from_dict(SCHEMA.to_dict() | {"unit": unit})
    run = fastdp.synthesize(
        months(), **OPTIONS | {"schema": schema}, epsilon=1.0, delta=1e-6, out=tmp_path / "run"
    )
    assert run.privacy["protection"]["user"] is None
    assert any("protected by k times mu" in note for note in run.privacy["notes"])
    assert any("habits from month to month" in text for text in run.privacy["not_protected"])
    assert fastdp.verify(run).user_epsilon is None
    with pytest.raises(UsageError, match="a user is one user in one month"):
        run.answer("count of users")
    words = " ".join(promise_words(promise(run.privacy)))
    assert "all of its records of one month" in words
    assert "habits from month to month, and whether the u is in the series at all" in words
    scores = fastdp.evaluate(months(), run, metrics=["tv1", "users"])
    assert scores["users"]["rows_per_user"]["truth"]["users"] == 40 * 14


def test_the_command_line_opens_and_shows_a_series(tmp_path):
    pq.write_table(months(), tmp_path / "trips.parquet")
    SCHEMA.save(tmp_path / "trips.toml")
    opened_with = "ledger open budget.db trips --epsilon 4 --delta 1e-6 --periods 24 --unit"
    shown = fastdp_cli(*opened_with.split(), UNIT, cwd=tmp_path).stdout
    assert shown.startswith("series: 24 months, epsilon 0.705053 each")
    release = "synth trips.parquet -m mst --ledger budget.db --series trips --period 2026-01 -q"
    fastdp_cli(*release.split(), "--out", "run", cwd=tmp_path)
    shown = fastdp_cli("verify", "run", "--ledger", "budget.db", cwd=tmp_path).stdout
    assert "one month of a user" in shown and "one user in every month" in shown
    show = ("ledger", "show", "budget.db")
    assert "the budget ends after 23 more months" in fastdp_cli(*show, cwd=tmp_path).stdout
    facts = json.loads(fastdp_cli(*show, "--json", cwd=tmp_path).stdout)
    assert [one["period"] for one in facts["trips"]["series"]["releases"]] == ["2026-01"]
    again = fastdp_cli(*release.split(), "--out", "again", cwd=tmp_path, check=False)
    assert again.returncode and "--late" in again.stderr


def test_the_last_release_is_a_prior_that_is_tested(tmp_path):
    """It is used where months are alike, left out where they are not, and named in the statement."""
    rng = np.random.default_rng(1)
    first = rng.integers(0, 4, 4000)
    alike = {"n": first, "m": np.where(rng.random(4000) < 0.9, first, rng.integers(0, 4, 4000))}
    plain = {"columns": {name: {"kind": "integer", "max": 3} for name in alike}}
    schema = fastdp.Schema.from_dict(plain)
    broken = {"n": first, "m": rng.permutation(alike["m"])}
    call = {"mechanism": "cliquetree", "epsilon": 2.0, "delta": 1e-6, "schema": schema, "seed": 3}
    before = fastdp.synthesize(pa.table(alike), **call, out=tmp_path / "before")
    steady = fastdp.synthesize(pa.table(alike), **call, previous=tmp_path / "before")
    other = fastdp.synthesize(pa.table(broken), **call, previous=before)
    taken = [run.privacy["mechanism"].get("public") for run in (steady, other)]
    assert taken[0]["prior_only"] or taken[0]["prior_and_answers"]
    assert not taken[1] or not taken[1]["prior_only"]
    assert steady.privacy["mechanism"]["previous"]["run"] == before.privacy["ledger"]["run"]
    assert steady.privacy["public_data"] == []
    wrong = [
        ({"seed": None}, "protects nobody"),
        ({"public": pa.table({"n": [0, 1], "m": [0, 1]})}, "give one of them"),
        ({"mechanism": "tworound"}, "adagrid, cliquetree, mst"),
        ({"previous": 5}, "a run or its folder"),
        ({"schema": fastdp.Schema.from_dict(plain | {"name": "x"} | ODD)}, "do not fit the schema"),
    ]
    for change, text in wrong:
        with pytest.raises(UsageError, match=text):
            more = pa.table(alike | {"t": first % 2})
            fastdp.synthesize(more, **call | {"previous": before} | change)


@pytest.mark.parametrize("prior", ["previous", "public"])
def test_a_prior_serves_a_run_that_models_its_users(prior):
    """The model of the rows then has a column about users, which the previous release and public data
    lack: the run must not end after its charge."""
    rng = np.random.default_rng(3)
    person = np.repeat(np.arange(1500), rng.geometric(0.1, 1500))
    kind = (person + (rng.random(person.size) < 0.1)) % 3
    zone = rng.integers(0, 4, person.size)
    rows = pa.table({"person": person, "kind": kind, "zone": zone})
    schema = fastdp.Schema.from_dict(
        {
            "user": {"column": "person", "max_rows": 50},
            "columns": {
                "kind": {"kind": "integer", "max": 2},
                "zone": {"kind": "integer", "max": 3},
            },
        }
    )
    config = CliqueTree(ids=Ids(source="users"))
    call = {"schema": schema, "mechanism": config, "epsilon": 3.0, "delta": 1e-6, "seed": 5}
    if prior == "public":
        given = pa.table({"person": person + 1, "kind": 2 - kind, "zone": rng.permutation(zone)})
    else:
        given = fastdp.synthesize(rows, **call)
    run = fastdp.synthesize(rows, **call, **{prior: given})
    asked = {name for m in run.measurements for name in m.clique}
    assert GROUP in asked, "the test is about runs with this column"


ODD = {"columns": {"n": {"kind": "integer", "max": 3}, "t": {"kind": "integer", "max": 1}}}


def test_a_plan_shows_the_whole_horizon(tmp_path):
    opened(tmp_path, epsilon=4.0, periods=60)
    SCHEMA.save(tmp_path / "s.toml")
    series = "plan -s s.toml -m mst --rows 1000 --ledger budget.db --series trips".split()
    shown = fastdp_cli(*series, cwd=tmp_path).stdout
    assert "epsilon 0.431614" in shown and "the budget ends after 60 more months" in shown
    before = "plan -s s.toml -m mst --rows 1000 --periods 12 -e 4 -d 1e-6 --json".split()
    facts = json.loads(fastdp_cli(*before, cwd=tmp_path).stdout)
    assert abs(facts["series"]["epsilon"] - 1.02) < 0.006
    assert len(facts["horizon"]) == 12
    assert math.isclose(facts["horizon"][-1]["user_epsilon"], 4.0, rel_tol=1e-5)
    assert facts["period"]["measurements"]
    wrong = fastdp_cli(*series, "-e", "1", cwd=tmp_path, check=False)
    assert "takes epsilon and periods from it" in wrong.stderr
