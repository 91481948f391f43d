"""Runs that deal rows to users that behave like users: what is charged, decided, kept and
refused."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

import fastdp
from fastdp.division import AGREEMENT, ORDER_OF_ROWS, USERS
from fastdp.errors import SchemaError, UsageError
from fastdp.mechanisms.base import Ids
from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.mechanisms.with_users import check_users
from fastdp.mechanisms.with_users.user_budget import (
    FACTS_LABEL,
    NULLS_LABEL,
    ORDER_LABEL,
    ROWS_LABEL,
    SIZES_LABEL,
)
from fastdp.mechanisms.with_users.user_questions import LABELS
from fastdp.privacy import noise
from fastdp.report import page
from tests.builders import killed_at, open_ledger, schema_with_users
from tests.tiers import first

SIZES = {"country": 6, "shop": 40, "payment": 3}
MECHANISM = "auto"


def schema(user=True, **facts):
    made = schema_with_users(SIZES, "who", max_rows=200, **facts)
    return made if user else fastdp.Schema.from_domain(SIZES)


def declared(**roles):
    plain = schema().to_dict()
    for name, role in roles.items():
        plain["columns"][name]["user"] = role
    made = fastdp.Schema.from_dict(plain)
    assert made.of_users() == roles == fastdp.Schema.from_dict(made.to_dict()).of_users()
    return made


def purchases(users=3000, seed=0, habits=True):
    """Customers with one country and one to four favourite shops of it, where they buy nine times
    of ten; without habits every row is drawn by itself."""
    rng = np.random.default_rng(seed)
    rows = rng.geometric(0.12, users)
    who = np.repeat(np.arange(users), rows)
    of = who if habits else np.arange(len(who))
    country = rng.integers(0, 6, of.max() + 1)[of]
    favourite = rng.integers(0, 6, (of.max() + 1, 4))[of, rng.integers(0, 4, len(who))]
    shop = (
        np.where(rng.random(len(who)) < 0.9, favourite, rng.integers(0, 6, len(who))) + 6 * country
    )
    payment = (rng.random(len(who)) < 0.4).astype(np.int64)
    return pa.table({"who": who, "country": country, "shop": shop, "payment": payment})


def go(table, mechanism=MECHANISM, epsilon=8.0, **options):
    options = {"schema": schema(), "seed": 3, "sample_seed": 3, "threads": 1} | options
    return fastdp.synthesize(table, mechanism, epsilon, 1e-6, **options)


def distinct(table, column):
    """Mean number of values per user with ten rows or more."""
    frame = table.select(["who", column]).to_pandas()
    grouped = frame.groupby("who")[column]
    return grouped.nunique()[grouped.size() >= 10].mean()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("users") / "run"
    return go(purchases(), out=out), out


def test_users_behave_like_users(run):
    """A customer has one country, and about as many shops as the real ones; without dealing it has
    about six countries and fifteen shops."""
    made = fastdp.load_run(run[1]).data
    truth = purchases()
    assert run[0].privacy["mechanism"]["users"]["constant"] == ["country"]
    assert run[0].privacy["mechanism"]["users"]["repeated"] == ["shop"]
    assert distinct(made, "country") == 1.0
    assert abs(distinct(made, "shop") / distinct(truth, "shop") - 1) < 0.35
    plain = go(purchases(), {"mechanism": "cliquetree", "ids": {"source": "private"}}).data
    assert distinct(plain, "country") > 4 and distinct(plain, "shop") > 2 * distinct(truth, "shop")
    sizes = [
        np.percentile(np.unique(t["who"], return_counts=True)[1], [50, 90, 99])
        for t in (made, truth)
    ]
    assert np.abs(sizes[0] / sizes[1] - 1).max() < 0.25


def test_what_is_stated_about_users_is_true(run):
    """Rates of agreement in columns, groups of codes and pairs of columns, chance and numbers of
    rows: within four standard errors, those of the releases, of what the table says."""
    truth = purchases().to_pandas()
    made = run[0].privacy
    users = made["mechanism"]["users"]
    lines = made["parts"][0]["releases"]
    rows = truth.groupby("who").size()

    def rate(*feature):
        parts = [truth[f] for f in feature if isinstance(f, str)]
        parts[-1] = parts[-1] // next((f for f in feature if isinstance(f, int)), 1)
        alike = truth.groupby([truth["who"], *parts]).size()
        return ((alike * (alike - 1)).groupby("who").sum() / (rows * (rows - 1)))[rows > 1].mean()

    sigma = {r["label"]: r["sigma"] for r in lines}
    error = {label: 4 * sigma[label] / (rows > 1).sum() / 2 for label in LABELS}
    assert (
        list(users["agreement"]) == list(SIZES) and 0 < users["standard_error"] < error[LABELS[0]]
    )
    for name in SIZES:
        assert users["agreement"][name] == pytest.approx(
            rate(name), abs=4 * users["standard_error"]
        )
        chance = np.square(truth[name].value_counts() / len(truth)).sum()
        assert users["by_chance"][name] == pytest.approx(chance, abs=0.01)
    assert [p[:2] for p in users["pairs"]] == [["shop", 4], ["shop", 16], ["shop", "payment"]]
    for *feature, found in users["pairs"]:
        assert found == pytest.approx(rate(*feature), abs=error[LABELS[2]])
    assert users["rows_interval"][0] <= len(truth) <= users["rows_interval"][1]
    seen = users["rows_up_to"]
    assert seen["interval"][0] <= np.minimum(rows, seen["most"]).sum() <= seen["interval"][1]
    assert abs(users["rows"] - len(truth)) < 8 * sigma[ROWS_LABEL] * seen["most"]
    assert (
        users["rows"] == run[0].data.num_rows and users["rows_bound"] == 200 >= users["most_rows"]
    )


def test_the_budget_is_charged_once_and_verified(run):
    made, out = run
    assert fastdp.verify(out).ok
    part = made.privacy["parts"][0]
    lines = part["releases"]
    charged = sum(r["event"]["mu"] ** 2 for r in lines)
    assert math.isclose(charged, part["spent"]["mu"] ** 2, rel_tol=1e-9)
    assert charged <= made.privacy["mu"] ** 2 * (1 + 1e-9)
    assert math.isclose(charged, made.privacy["mu"] ** 2, rel_tol=1e-6)  # the whole budget

    def share(belongs):
        return sum(r["event"]["mu"] ** 2 for r in lines if belongs(r)) / made.privacy["mu"] ** 2

    left = USERS["agreement rates"] - share(lambda r: r["label"] in LABELS)
    assert -1e-9 < left < sum(AGREEMENT[:2])  # no smaller standard error is asked for
    assert math.isclose(
        share(lambda r: r["label"] == ROWS_LABEL), USERS["number of rows"], rel_tol=1e-6
    )
    assert math.isclose(
        share(lambda r: r["label"] == NULLS_LABEL), USERS[NULLS_LABEL], rel_tol=1e-6
    )
    of_users = share(lambda r: r.get("of") == "users" or r["label"] == SIZES_LABEL)
    assert math.isclose(of_users, USERS["table of users"] + USERS[FACTS_LABEL], rel_tol=1e-6)
    assert all(
        r["sensitivity"] == 1 for r in lines if r.get("of") == "users" and r["kind"] == "marginal"
    )


def test_where_nothing_repeats_only_rates_are_asked_for_and_the_rows_get_the_rest():
    """Users repeat something where that is likelier than chance. Noise alone looks so in 8 of seeds 3 to
    34; in two more, groups of users differ."""
    made = go(purchases(habits=False), "auto", seed=5, sample_seed=5)
    users = made.privacy["mechanism"]["users"]
    releases = made.privacy["parts"][0]["releases"]
    assert users["constant"] == users["repeated"] == []
    assert not [
        r for r in releases if r.get("of") == "users" or r["label"] in (*LABELS[1:], ROWS_LABEL)
    ]
    spent = sum(r["event"]["mu"] ** 2 for r in releases) / made.privacy["mu"] ** 2
    about = sum(r["event"]["mu"] ** 2 for r in releases if r["label"] in (*LABELS, NULLS_LABEL))
    assert math.isclose(spent, 1.0, rel_tol=1e-6) and about <= 0.055 * made.privacy["mu"] ** 2
    assert "who" in made.data.column_names


@pytest.mark.parametrize("policy", first(1, ["drop", "own"]))
def test_the_share_of_rows_without_a_user_id_is_stated(policy):
    """A fifth of the rows; the interval follows from the noise, and with this seed holds the
    share."""
    table = purchases()
    nulls = np.random.default_rng(0).random(table.num_rows) < 0.2
    table = table.set_column(0, "who", pa.array(table["who"].to_numpy(), mask=nulls))
    made = go(table, schema=schema(null=policy)).privacy
    stated = made["mechanism"]["users"]["without_id"]
    low, high = stated["share_interval"]
    assert low < nulls.mean() < high and high - low < 0.1
    (line,) = [r for r in made["parts"][0]["releases"] if r["label"] == NULLS_LABEL]
    clip = made["parts"][0]["clip"]
    assert clip <= stated["together"] < 2 * clip and line["sensitivity"] == 1
    half = 1.96 * line["sigma"] * stated["together"]
    assert math.isclose(high - low, 2 * half / table.num_rows, rel_tol=0.35)
    assert any(f"{low:.1%} to {high:.1%}" in note for note in made["notes"])


@pytest.fixture(scope="module")
def ordered(tmp_path_factory):
    out = tmp_path_factory.mktemp("users") / "ordered"
    trips = fastdp.simulate.taxi(11_000, seed=2, chained=True)
    trips = trips.select(
        ["taxi_id", "trip_start", "pickup_community_area", "dropoff_community_area"]
    )
    schema = fastdp.Schema.load("taxi-chained").select(
        ["date", "hour", "minute", "pickup_community_area", "dropoff_community_area"]
    )
    return trips, go(trips, epsilon=10.0, schema=schema, out=out), out


def follows(table):
    """How often a trip starts where the last one of the taxi ended, and whether the table is in
    order."""
    frame = table.to_pandas()
    same = frame["taxi_id"].to_numpy()[1:] == frame["taxi_id"].to_numpy()[:-1]
    place = [frame[f"{side}_community_area"].to_numpy() for side in ("dropoff", "pickup")]
    steps = np.diff(frame["trip_start"].to_numpy().astype(np.int64))[same]
    return (place[0][:-1] == place[1][1:])[same].mean(), bool((steps >= 0).all())


def test_rows_follow_each_other_where_an_order_is_declared(ordered):
    """Two trips in five start where the last one ended; any other trip of the same taxi ends there
    far more seldom, and so would rows that are dealt without regard to order. Exchanges go more
    than three fifths of the way (their goal is the released rate, and they stop where no row is
    left that fits): the difference to rows without order is 50 standard errors. First rows of some
    hundred taxis, who all start in the first three of 182 days, are off by .06 to .25 (eight seeds, here
    .15; without the days of the released order .05 to .31, here .23)."""
    trips, made, out = ordered
    share, in_order = follows(made.data)
    truth, _ = follows(trips.sort_by([("taxi_id", "ascending"), ("trip_start", "ascending")]))
    assert 0.36 < truth < 0.5
    order = made.privacy["mechanism"]["users"]["order"]
    chain = ["dropoff_community_area", "pickup_community_area"]
    assert chain in order["chains"]
    (other,) = [any_two for *pair, _, any_two in order["pairs"] if pair == chain]
    assert in_order and share > max(0.3, other + 0.6 * (truth - other))
    (line,) = [r for r in made.privacy["parts"][0]["releases"] if r["label"] == ORDER_LABEL]
    assert math.isclose(
        line["event"]["mu"] ** 2 / made.privacy["mu"] ** 2, ORDER_OF_ROWS, rel_tol=1e-6
    )
    pairs = len(order["pairs"]) + sum(x != y for x, y, *_ in order["pairs"])
    assert math.isclose(line["sensitivity"] ** 2, pairs + 4, rel_tol=1e-9)
    assert fastdp.verify(out).ok
    scores = fastdp.evaluate(trips, made, metrics="users")["users"]["order"]
    assert scores["first"] < 0.2 and scores["gap"] < 0.4 and scores["next"] < 0.2
    assert {tuple(f["columns"]) for f in scores["follows"]} >= {tuple(c) for c in order["chains"]}


@pytest.mark.slow
def test_orders_are_the_same_for_any_threads_and_cost_nothing_undeclared(ordered):
    trips, made, _ = ordered
    assert go(trips, epsilon=10.0, schema=made.schema, threads=3).data.equals(made.data)
    plan = fastdp.plan(made.schema, "cliquetree", 1.0, 1e-6, rows=30_000)
    assert dict(plan.charges)[ORDER_LABEL] == ORDER_OF_ROWS
    plan = fastdp.plan(schema(), "cliquetree", 1.0, 1e-6, rows=30_000)
    assert ORDER_LABEL not in dict(plan.charges) and USERS.items() <= dict(plan.charges).items()


def test_a_killed_run_is_resumed_with_the_same_answers(tmp_path, monkeypatch):
    table = purchases(800)
    ledger = open_ledger(tmp_path, epsilon=8.0, delta=1e-6)
    options = {"out": tmp_path / "run", "ledger": ledger, "dataset": "d", "seed": None}
    with killed_at("fastdp.mechanisms.with_users.chosen_users.PoolRows"):  # after the last release
        go(table, **options)
    monkeypatch.setattr(noise, "gaussian", lambda *_, **__: pytest.fail("drawn a second time"))
    go(table, resume=True, **options)
    assert fastdp.verify(tmp_path / "run").ok and ledger.spent("d")["epsilon"] <= 8.0


def test_constraints_hold_and_their_columns_are_exchanged_with_whole_rows():
    bound = schema().with_constraints([{"require": "country != 0 or shop < 39"}])
    made = go(purchases(), schema=bound)
    assert made.privacy["mechanism"]["users"]["constant"] == []
    assert "country" in made.privacy["mechanism"]["users"]["repeated"]


@pytest.mark.slow
@pytest.mark.parametrize("modelled", first(1, [True, False]))
def test_what_follows_from_a_constant_is_constant(modelled):
    """One country per user, so one continent, and the two agree. With another rule about them none
    is."""
    table = purchases()
    table = table.append_column("continent", pa.array(table["country"].to_numpy() // 2))
    rule = {"column": "continent", "follows": "country // 2", "model": modelled}
    plain = schema_with_users(SIZES | {"continent": 3}, "who", max_rows=200)
    made = go(table, schema=plain.with_constraints([rule]))
    assert made.privacy["mechanism"]["users"]["constant"] == ["country", "continent"]
    assert distinct(made.data, "country") == distinct(made.data, "continent") == 1.0
    assert (made.data["continent"].to_numpy() == made.data["country"].to_numpy() // 2).all()
    both = plain.with_constraints([rule, {"require": "continent != 0 or shop < 39"}])
    assert go(table, schema=both).privacy["mechanism"]["users"]["constant"] == []


def test_what_cannot_be_done_is_refused_before_anything_is_read(monkeypatch):
    config = CliqueTree(ids=Ids(source="users"))
    check_users(config, schema())
    monkeypatch.setattr(CliqueTree, "traits", replace(CliqueTree.traits, deals_ids=False))
    with pytest.raises(UsageError, match="makes rows first"):
        check_users(config, schema())


def test_declared_constants_are_kept_whatever_the_rows_say():
    """Declared roles hold in the output and are not asked for, so that rates of the others have
    less noise: with all of them declared nothing is."""
    made = go(purchases(500), schema=declared(payment="constant", shop="free"))
    users = made.privacy["mechanism"]["users"]
    assert "payment" in users["constant"] and users["repeated"] == []
    assert list(users["agreement"]) == ["country"]
    assert distinct(made.data, "payment") == 1.0
    made = go(purchases(500), schema=declared(payment="repeated", shop="free", country="constant"))
    assert made.privacy["mechanism"]["users"]["repeated"] == ["payment"]
    made = go(purchases(500), schema=declared(payment="free", shop="free", country="constant"))
    assert not [r for r in made.privacy["parts"][0]["releases"] if r["label"] in LABELS]
    bound = declared(shop="constant").with_constraints([{"require": "country != 0 or shop < 39"}])
    with pytest.raises(UsageError, match="constraint"):
        check_users(CliqueTree(), bound)
    with pytest.raises(SchemaError, match="expected one of constant, repeated, free"):
        declared(shop="sometimes")


@pytest.mark.slow
def test_groups_of_users_take_out_the_bias_of_the_clip(tmp_path):
    """Large users (200 rows) pay with 2, small ones (5 rows) with 0. At clip 10 a fifth of the rows
    that count are large users', of the table four fifths; with the group of their user in the model
    all count."""
    rows = np.repeat([200, 5], [400, 3600])
    who = np.repeat(np.arange(4000), rows)
    large = np.repeat(rows == 200, rows)
    rng = np.random.default_rng(0)
    free = {name: rng.integers(0, SIZES[name], len(who)) for name in ("country", "shop")}
    table = pa.table({"who": who, "payment": 2 * large, **free})
    recipe = {"mechanism": "cliquetree", "clip": 10}
    made = go(table, recipe, out=tmp_path / "run")
    assert fastdp.verify(tmp_path / "run").ok
    assert len(made.privacy["mechanism"]["users"]["row_groups"]) > 1

    def share(run):
        return np.mean(fastdp.load_run(run).data["payment"].to_numpy() == 2)

    assert abs(share(tmp_path / "run") - large.mean()) < 0.03
    go(table, recipe | {"ids": {"source": "private"}}, out=tmp_path / "plain")
    assert share(tmp_path / "plain") < 0.5
    assert set(made.data.column_names) == {"who", *SIZES}
    assert (
        set((again := made.sample(1000)).column_names) == {"who", *SIZES} and again.num_rows == 1000
    )


def test_without_a_user_column_nothing_is_asked():
    made = go(purchases(200).drop_columns(["who"]), schema=schema(user=False))
    assert not [r for r in made.privacy["parts"][0]["releases"] if r["label"] in LABELS]


def check_answers_about_users(run, tmp_path, purchases):
    """They hold at four standard errors, are the same from the folder, and the pages show them."""
    out = tmp_path / "run"
    assert fastdp.verify(out).ok
    frame = purchases.to_pandas()
    rows = frame.groupby("customer").size()
    first = frame.groupby("customer")["month"].min()
    kept = fastdp.load_run(out)
    for where, true in (({"rows": (2, None)}, rows > 1), ({"first(month)": 2}, first == 2)):
        found = run.answer("share of users", where=where, level=0.9999)
        assert found["low"][0].as_py() <= true.mean() <= found["high"][0].as_py()
        assert kept.answer("share of users", where=where, level=0.9999).equals(found)
    cohorts = run.answer("count of users", "first(month)", {"rows": (2, None)})
    assert set(cohorts["basis"].to_pylist()) <= {"model", "measured"}
    released = page.write_public(tmp_path / "page.html", out)["people"]
    assert released["tables"][0]["repeat"] > 0 and len(released["released"][0]["share"]) == 14
    assert "Come back, by first month" in (tmp_path / "page.html").read_text("utf-8")
    fastdp.evaluate(purchases, out, schema=run.schema, report=tmp_path / "true.html", run=run)
    assert f"{100 * (rows > 1).mean():.1f}" in (tmp_path / "true.html").read_text("utf-8")
    names = json.loads((out / "measurements.json").read_text("utf-8"))["measurements"]
    assert any(m["clique"] == ["first month"] for m in names)


def check_features(run, purchases):
    """Answers about the owner's features hold the truth within five standard errors, and synthetic
    users are near it."""
    found = []
    for table in (purchases, run.data):
        users = table.to_pandas().groupby("customer")
        stays = users["month"].max() - users["month"].min()
        found.append([(stays >= 2).mean(), (users["shop"].nunique() < 2).mean()])
    asked = [
        run.answer("share of users", where={"stays": (2, None)}),
        run.answer("share of users", where={"picky": True}),
    ]
    for true, made, answer in zip(*found, (a.to_pylist()[0] for a in asked)):
        assert abs(answer["estimate"] - true) < 5 * answer["error"] and answer["error"] < 0.03
        assert abs(made - true) < 5 * answer["error"] + 0.05


def check_quotes(run):
    """A reader of the synthetic rows finds the quoted numbers near their intervals: drawing users
    and values inside bins adds little; and as many rows as the statement says."""
    made = run.data.to_pandas()
    rows = made.groupby("customer").size()
    spent = made.groupby("customer")["amount"].sum().clip(0, 2000)  # as the maximum says
    found = [(rows > 1).mean(), spent.sum() / len(made), (made["month"] < 3).sum()]
    for line, value in zip(run.numbers.to_pylist(), found):
        half = (line["high"] - line["low"]) / 2
        assert abs(value - line["estimate"]) < 1.5 * half + 0.02 * line["estimate"], line
    low, high = run.privacy["mechanism"]["users"]["rows_interval"]
    assert low <= len(made) <= high


def about_purchases():
    """A table, a schema of it and the options of its runs."""
    purchases = fastdp.simulate.purchases(600, seed=2)
    whole = {"kind": "integer", "dtype": "int64", "min": 0}
    edges = [0, 8, 16, 24, 32, 48, 64, 96, 128, 256, 4096]
    plain = {
        "user": {
            "column": "customer",
            "order": "month",
            "amounts": ["amount"],
            "features": {"stays": "last(month) - first(month)", "picky": "distinct(shop) < 2"},
            "max_rows": 500,
        },
        "columns": {
            "country": {**whole, "max": 7, "user": "constant"},
            "shop": {**whole, "max": 23},
            "month": {**whole, "max": 11},
            "amount": {"kind": "numeric", "dtype": "float64", "edges": edges},
        },
    }
    options = {
        "epsilon": 8.0,
        "delta": 1e-6,
        "schema": fastdp.Schema.from_dict(plain),
        "seed": 3,
        "sample_seed": 3,
    }
    return purchases, plain, options


def test_users_are_chosen_by_facts_about_them(tmp_path):
    """The statement verifies and lists the facts; rows are as many as stated, one country per user."""
    purchases, _, options = about_purchases()
    run = fastdp.synthesize(purchases, "auto", **options, threads=2, out=tmp_path / "run")
    fastdp.verify(tmp_path / "run")
    users = run.privacy["mechanism"]["users"]
    assert {"first month", "last month", "active month", "sum amount"} <= set(users["facts"])
    check_features(run, purchases)
    made = run.data.to_pandas()
    assert (made.groupby("customer")["country"].nunique(dropna=False) == 1).all()
    assert len(made) == users["rows"]
    check_answers_about_users(run, tmp_path, purchases)


@pytest.mark.slow
def test_threads_change_no_choice_of_users():
    purchases, _, options = about_purchases()
    one, two = (fastdp.synthesize(purchases, "auto", **options, threads=n) for n in (1, 2))
    assert one.data.equals(two.data)


@pytest.mark.slow
def test_users_are_chosen_for_quoted_numbers_where_no_amounts_are_declared():
    """Without amounts there are no sums among the facts."""
    purchases, plain, options = about_purchases()
    plain["user"].pop("amounts")
    numbers = ["share of users where rows > 1", "mean(amount)", "count of rows where month < 3"]
    options |= {"schema": fastdp.Schema.from_dict(plain), "numbers": {"list": numbers, "max": 2000}}
    other = fastdp.synthesize(purchases, "auto", **options)
    check_quotes(other)
    facts = set(other.privacy["mechanism"]["users"]["facts"])
    assert "first month" in facts and not [name for name in facts if name.startswith("sum")]


@pytest.mark.parametrize(
    ("features", "text"),
    [
        ({"spent": "sum(amont)"}, "no column 'amont'.*Did you mean|no column 'amont'"),
        ({"spent": "amount"}, "'amount' has a value in each row"),
        ({"spent": "sum(amount) > 'a'"}, "cannot compare"),
        ({"spent": "first(name)"}, "order of rows"),
        ({"spent": "sum(amount) by name"}, "expected the end"),
        ({"spent": "max(day)"}, "needs numbers|codes of it alone"),
        ({"spent": {"of": "sum(amount)", "edges": [3, 1]}}, "ascending"),
        ({"spent": 3}, "expected a text"),
        ({"amount": "sum(amount)"}, "'amount' is a column"),
        ({"a b": "rows"}, "letters, digits"),
    ],
)
def test_features_that_do_not_fit_are_refused_before_the_charge(tmp_path, features, text):
    columns = {
        "name": {"kind": "categorical", "values": ["a", "b"], "dtype": "string"},
        "amount": {"kind": "integer", "dtype": "int64", "min": 0, "max": 5},
        "day": {"kind": "numeric", "dtype": "timestamp[us]", "edges": ["2020-01-01", "2021-01-01"]},
    }
    rows = pa.table({"id": [1], "name": ["a"], "amount": [1], "day": [None]})
    with pytest.raises((SchemaError, UsageError), match=f"(?s)features.*({text})"):
        plain = {"user": {"column": "id", "features": features}, "columns": columns}
        fastdp.synthesize(
            rows,
            "auto",
            epsilon=1.0,
            delta=1e-6,
            schema=fastdp.Schema.from_dict(plain),
            ledger=tmp_path / "ledger",
        )
    assert not (tmp_path / "ledger").exists()


def test_amounts_that_are_not_numbers_are_refused():
    columns = {"name": {"kind": "categorical", "values": ["a", "b"], "dtype": "string"}}
    for amounts, text in ((["name"], "not of kind numeric"), (["nome"], "no column 'nome'")):
        with pytest.raises(SchemaError, match=text):
            fastdp.Schema.from_dict(
                {"user": {"column": "id", "amounts": amounts}, "columns": columns}
            )
