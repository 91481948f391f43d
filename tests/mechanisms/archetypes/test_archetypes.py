"""Archetypes from end to end: what is asked and paid for, users first, the chain, refinement, and
what never gets out."""

import json
import logging
import math
import re
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.engines.user_histograms import histogram
from fastdp.measurement import Measurement
from fastdp.mechanisms import recipe as recipes
from fastdp.mechanisms.archetypes import Archetypes, fit as fitting
from fastdp.mechanisms.archetypes.archetype_users import CastRows, cast
from fastdp.mechanisms.base import Job
from fastdp.model import array_file as model_store
from fastdp.privacy.calibrate import mu_of_method
from fastdp.public.data import PublicTable
from fastdp.userkeys import MostCommon
from tests.reference import archetypes as twin
from tests.tiers import slow_cases

FEATURES = ("shift", "pickup_community_area", "dropoff_community_area")
BUDGET = {"epsilon": 2.0, "delta": 1e-5, "seed": 3, "sample_seed": 4}


def recipe(**fields):
    return {
        "mechanism": "archetypes",
        **recipes.load("taxi-archetypes").fields,
        "archetypes": 4,
        **fields,
    }


@pytest.fixture(scope="module")
def schema():
    return fastdp.Schema.load("taxi-deid2")


@pytest.fixture(scope="module")
def public(schema):
    return fastdp.read(fastdp.simulate.taxi(20_000, seed=2, year=2019), schema, public=True)


@pytest.fixture(scope="module")
def trips():
    return fastdp.simulate.taxi(20_000, seed=1, year=2020)


@pytest.fixture(scope="module")
def table(schema, trips):
    return fastdp.read(trips, schema)


@pytest.fixture(scope="module")
def model(public):
    config = recipes.load(recipe()).config(1.0)
    return config.learnt(PublicTable(public))


class Session:
    """Answers histograms of users with given numbers; remembers what each cost."""

    def __init__(self, schema, answers, mu=1.0, epsilon=2.0, delta=1e-5):
        self.schema = schema
        self.domain = schema.domain
        self.mu = mu
        self.epsilon = epsilon
        self.delta = delta
        self._answers = list(answers)
        self.asked = []

    def user_histogram(self, key, cap=1, *, mu, label):
        self.asked.append((key.bind(self.domain), mu, label))
        return Measurement(("users",), np.asarray(self._answers.pop(0), float), 1 / mu, label=label)


def outcome(model, schema, users, companies, *, rows=None, config=None, **options):
    config = config or Archetypes(features=model.options.features)
    session = Session(schema, [users, companies], **options)
    job = Job(schema=schema, epsilon=2.0, fit=None, rows=rows, public=object(), seed=5)
    with patch.object(fitting, "fit", lambda public, options: model):
        return config.run(session, job), session


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 10.0])
def test_the_published_calibration_splits_epsilon_and_delta(model, schema, epsilon):
    config = Archetypes(features=model.options.features, calibration="classic-gaussian")
    whole_mu = mu_of_method(epsilon, 1e-5, "classic-gaussian")
    _, session = outcome(
        model, schema, [50] * 4, [4] * 57, config=config, mu=whole_mu, epsilon=epsilon
    )
    capped = min(epsilon, 0.999999999)
    for (_, mu, _), share in zip(session.asked, (config.share, 1 - config.share)):
        sigma = math.sqrt(2 * math.log(1.25 / (share * 1e-5))) / (share * capped)
        assert 1 / mu == pytest.approx(sigma, rel=1e-9)
    assert sum(mu**2 for _, mu, _ in session.asked) <= whole_mu**2


def test_private_users_get_the_label_the_scaled_mixture_gives_their_rows(model, table):
    """The lookup over cells says what the mixture says of each row, through the same scaler."""
    points = np.stack([table.codes[c] for c in FEATURES], axis=1)
    label = model.mixture.labels(points)
    usual = twin.most_common(table.user.tolist(), label.tolist())
    labelled = histogram(table, MostCommon(FEATURES, labels=model.labels, keys=4), 1, 1)
    sure = np.bincount([min(v) for v in usual.values() if len(v) == 1], minlength=4)
    could = np.bincount([x for v in usual.values() for x in v], minlength=4)
    assert labelled.sum() == table.users
    assert (sure <= labelled).all()
    assert (labelled <= could).all()


def test_users_come_first_and_rows_follow_the_answers_about_them(model, schema):
    """Archetypes, companies and rows of the users follow the answers; a user has one company and
    one archetype's places."""
    users = [100, 0, 300, 50]
    companies = np.zeros(57)
    companies[[3, 20]] = 150, 300
    result, _ = outcome(model, schema, users, companies)
    rows = result.rows
    people = result.rows.people
    shards = range(-(-rows.total // rows.shard_rows))
    owner = np.concatenate([result.owners(i) for i in shards])
    parts = [rows.shard(i) for i in shards]
    codes = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    assert owner.size == rows.total == codes["fare"].size
    assert (np.unique(owner) == np.arange(people.archetype.size)).all()
    assert np.abs(np.bincount(people.archetype, minlength=4) - users).max() <= 2
    assert np.abs(np.bincount(people.trait, minlength=57) - companies).max() <= 4
    assert (codes["company_id"] == people.trait[owner]).all()
    assert np.bincount(owner).max() <= 200
    cell = np.ravel_multi_index([codes[c] for c in FEATURES], schema.domain.shape(FEATURES))
    for a in (0, 2, 3):
        at = slice(*model.places.start[a : a + 2])
        assert np.isin(cell[people.archetype[owner] == a], model.places.values[at]).all()
    for name, n in schema.domain.items():
        assert codes[name].max() < n


def test_shards_can_be_drawn_alone(model):
    users = np.full((4, 57), 2.0)
    people = cast(model, users, 10**9, 200, False, 1)
    rows = CastRows(model, people, 7, shard_rows=1000)
    whole_owner = np.repeat(np.arange(people.archetype.size), np.diff(people.ends, prepend=0))
    for i in (3, 0, 3):
        assert (rows.owners(i) == whole_owner[i * 1000 : (i + 1) * 1000]).all()
    a = rows.shard(2)
    b = CastRows(model, people, 7, shard_rows=1000).shard(2)
    assert all((a[name] == b[name]).all() for name in a)
    last = rows.total // 1000
    assert rows.owners(last).size == rows.total - last * 1000 == rows.shard(last)["fare"].size


@pytest.mark.parametrize("limit", [100, 3000, 10**9])
def test_as_many_rows_are_cast_as_users_have_on_average_up_to_the_limit(model, limit):
    """With `mean` every user has the mean number of rows of its archetype, so that only rounding is
    left."""
    users = np.full((4, 57), 2.0)
    wanted = min(limit, float(users.sum(axis=1) @ model.mean_rows))
    made = cast(model, users, limit, 200, True, 1)
    assert made.ends[-1] <= limit and made.ends[-1] == pytest.approx(wanted, rel=0.15)


def test_values_outside_the_public_lists_change_nothing_visible(
    trips, schema, public, model, tmp_path
):
    """Rows with an unlisted company: the same bytes come out as without them, everywhere."""
    odd = fastdp.simulate.taxi(300, seed=77, year=2020)
    at = odd.schema.get_field_index("company_id")
    odd = odd.set_column(at, "company_id", pa.array(np.full(300, 120), odd.schema.field(at).type))
    outs = []
    for name, data in (("with", pa.concat_tables([trips, odd])), ("without", trips)):
        run = fastdp.synthesize(
            data, recipe(), public=public, schema=schema, out=tmp_path / name, **BUDGET
        )
        outs.append({p.name: p.read_bytes() for p in run.out.iterdir() if p.name != "privacy.json"})
    assert outs[0] == outs[1]
    assert (
        run.privacy["mechanism"]["public_model_sha256"] == model.digest()
        and len(run.measurements) == 2
    )
    made = run.to_arrow()
    assert made.num_rows > 10_000
    # Every value is inside its domain.
    assert fastdp.read(made, schema, public=True).rows == made.num_rows


def numbers_in(path):
    """Every number a file tells, however it is kept."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        columns = [
            c
            for c in table.column_names
            if pa.types.is_integer(table[c].type) or pa.types.is_floating(table[c].type)
        ]
        return {float(v) for c in columns for v in table[c].drop_null().to_numpy()}
    if path.suffix == ".fastdp":
        arrays, manifest = model_store.load(path)
        numbers = set().union(*(a.ravel().astype(float).tolist() for a in arrays.values()))
        return numbers | {
            float(x) for x in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", json.dumps(manifest))
        }
    text = path.read_bytes().decode("latin-1")
    return {float(x) for x in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", text)}


@pytest.mark.parametrize("refine", [{"share": 0.5, "ways": 1}, *slow_cases(None)])
def test_no_count_without_noise_gets_out(refine, schema, public, model, tmp_path, caplog, capfd):
    """Private users in telling numbers: none of the true counts is in any output, log or progress
    text."""
    caplog.set_level(logging.DEBUG)
    rng = np.random.default_rng(0)
    sizes = {5: 1169, 11: 1517}
    users = np.repeat(np.arange(sum(sizes.values())) + 1_000_000, 2)
    base = fastdp.simulate.taxi(users.size, seed=3, year=2020)
    company = np.repeat(rng.permutation(np.repeat(list(sizes), list(sizes.values()))), 2)
    private = base.set_column(0, "taxi_id", pa.array(users)).set_column(
        base.schema.get_field_index("company_id"), "company_id", pa.array(company.astype(np.int8))
    )
    table = fastdp.read(private, schema)
    true = {
        int(n) for n in histogram(table, MostCommon(FEATURES, labels=model.labels, keys=4), 1, 1)
    }
    true |= set(sizes.values()) | {table.rows, table.users}
    true = {float(n) for n in true if n > 300}
    messages = []
    options = {"public": public, "schema": schema, "out": tmp_path / "run", "rows": 2000, **BUDGET}
    options["progress"] = lambda p: messages.append(str(p))
    run = fastdp.synthesize(private, recipe(refine=refine), **options)
    files = [
        p for place in (run.out, tmp_path / "run.private") for p in place.rglob("*") if p.is_file()
    ]
    assert {"privacy.json", "measurements.pq", "synthetic.parquet"} <= {p.name for p in files}
    for path in files:
        # Synthetic values may be any number of their domain; reading.json counts rows for the owner
        # alone.
        if not path.name.startswith("synthetic") and path.name != "reading.json":
            assert not true & numbers_in(path), path.name
    seen = capfd.readouterr()
    for text in (*messages, caplog.text, seen.out, seen.err, json.dumps(run.privacy), repr(run)):
        assert not true & {float(x) for x in re.findall(r"(?<![\w.])\d+(?![\w.])", text)}
    # The scan can fail: it finds a true count that is written down.
    (tmp_path / "leak.json").write_text(json.dumps({"users": [int(next(iter(true)))]}))
    assert true & numbers_in(tmp_path / "leak.json")


@pytest.mark.slow
def test_refining_moves_the_public_distribution_to_the_private_one(schema, public):
    """Years far apart, so that there is something to move."""
    table = fastdp.read(fastdp.simulate.taxi(8_000, seed=1, year=2030), schema)
    run = fastdp.synthesize(
        table, recipe(refine={"ways": 1}), public=public, **(BUDGET | {"epsilon": 500.0})
    )
    truth = fastdp.marginals(table.as_truth(), [("payment_type",), ("fare",)])
    before = fastdp.marginals(public, [("payment_type",), ("fare",)])
    for clique, counts in truth.items():
        gap = [
            np.abs(x / x.sum() - counts / counts.sum()).sum()
            for x in (run.model.marginal(clique), before[clique])
        ]
        assert gap[1] > 0.05
        assert gap[0] < 0.3 * gap[1]
    data = run.data
    assert abs(data.num_rows - table.rows) < 100
    users = data.group_by("taxi_id").aggregate(
        [("company_id", "count_distinct"), ("fare", "count")]
    )
    assert set(users["company_id_count_distinct"].to_pylist()) == {1}
    assert max(users["fare_count"].to_pylist()) <= 200
    assert 0.7 < users.num_rows / table.users < 1.4
    assert run.privacy["epsilon"] <= 500.0 * (1 + 1e-9)
