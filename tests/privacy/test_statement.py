"""The statement: it follows its schema, adds up when recomputed, and lists all that is in the
folder. What of it cannot be forged: run/test_statement_check and audit/test_attacks_release."""

import json
import shutil

import jsonschema
import numpy as np
import pytest

from fastdp.privacy import statement
from fastdp.privacy.forms import OWNER, as_form
from fastdp.release import reserve
from fastdp.release.gateway import Request
from fastdp.run.verify import inspect, verify
from fastdp.userkeys import Groups

from ..audit.world import SCHEMA, Swap, ask_everything, table
from ..builders import open_ledger, statement_of


@pytest.fixture(scope="module")
def engine():
    rng = np.random.default_rng(1)
    codes = [rng.integers(0, n, 200) for n in (3, 4, 2)]
    return Swap(table(codes, np.arange(200) % 13))


@pytest.fixture(scope="module")
def built(engine, tmp_path_factory):
    """A folder as a run leaves it, and the ledger it was charged to."""
    tmp_path = tmp_path_factory.mktemp("run")
    ledger = open_ledger(tmp_path, "trips", epsilon=20.0, delta=1e-5)
    asks = [
        reserve.BudgetRequest(epsilon=1.0, delta=1e-5, clip=3),
        reserve.BudgetRequest(epsilon=10.0, delta=1e-5, clip=5),
    ]
    reserved = reserve.reserve(SCHEMA, asks, ledger=ledger, dataset="trips")
    one, ten = reserved.sessions(engine)
    ask_everything(ten)
    one.measure([Request(("a",), one.mu * 0.5)], "a")
    one.user_histogram(Groups(("a",), t_max=2), cap=2, mu=one.mu * 0.5, label="groups")
    one.user_histogram(Groups(("a",), t_max=2), cap=2, epsilon=0.05, label="groups, pure")
    one.select_l1(
        [("a", "b"), ("b",)],
        {("a", "b"): np.zeros(12), ("b",): np.zeros(4)},
        epsilon=0.1,
        label="pick",
    )
    folder = tmp_path / "out"
    (folder / "synthetic").mkdir(parents=True)
    (folder / "synthetic" / "part-0.parquet").write_bytes(b"rows")
    (folder / "synthetic" / "part-1.parquet").write_bytes(b"more rows")
    document = reserved.statement(
        mechanism={"name": "test"}, public_data=[{"name": "last year"}], notes=["hello"]
    )
    statement.write(folder, document)
    reserved.finish()
    return folder, ledger


@pytest.fixture
def made(built, tmp_path):
    """The same, in a copy that a test may spoil."""
    return shutil.copytree(built[0], tmp_path / "out"), built[1]


def test_it_follows_the_published_schema_and_verifies(made):
    schema = statement.load_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(statement_of(made[0]), schema)
    folder, ledger = made
    verdict = verify(folder, ledger)
    assert verdict.ok and verdict.files == 2
    assert verdict.epsilon == pytest.approx(statement_of(folder)["epsilon"])


@pytest.mark.parametrize(
    "name",
    [
        "timings.json",
        "reading.json",
        "run.log",
        "report.html",
        "counts.npy",
        "out.private/x",
        "ledger.db",
        "synthetic/report.html",
        "true_total.txt",
        "budget.db.head",
        "state.json",
    ],
)
def test_what_is_not_for_release_is_refused_even_if_listed(made, name):
    folder, _ = made
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("private")
    assert not inspect(folder).ok
    statement.write(folder, statement_of(folder))
    assert any("not for release" in p for p in inspect(folder).problems)


def test_the_registrys_numbers_are_the_statements_and_the_rest_is_left_to_people(made):
    """Its text, and that of the other forms: tests/snapshots."""
    stated = statement_of(made[0])
    entry = as_form(stated, "registry")["deployment"]
    loss = entry["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": stated["epsilon"], "delta": stated["delta"]}
    assert (
        loss["privacy_unit"] == "User-level"
        and entry["dp_variant"]["variant_name"] == "Approximate DP"
    )
    assert stated["unit"]["adjacency"] in loss["privacy_unit_details"]
    assert stated["schema"]["sha256"] in entry["dp_variant"]["data_domain"]
    assert json.dumps(entry).count(OWNER) >= 2
