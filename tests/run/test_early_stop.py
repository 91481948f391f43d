"""A schema that does not fit the data: the run stops after its first noisy answers and pays for no
more."""

import json
from fractions import Fraction

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import StoppedEarly
from fastdp.measurement import Measurement
from fastdp.mechanisms.shared.empty_columns import empty_columns
from fastdp.privacy import noise
from fastdp.privacy.accountant import event_from_dict, mu_of
from fastdp.privacy.gdp import mu_from
from tests.builders import killed_at, open_ledger
from tests.tiers import first

DELTA = 1e-6
# At epsilon 4 and 60,000 rows the noise is far below half a per cent of the rows: nothing is left
# to chance.
MECHANISMS = {
    "mst": "mst",
    "cliquetree": "cliquetree",
    "aim": {"mechanism": "aim", "rounds": 4},
    "tworound": {"mechanism": "tworound", "round2": [["colour", "size"]]},
    "adagrid": {"mechanism": "adagrid", "outer": [["colour", "size"], ["colour", "age"]]},
    "adagrid, outer chosen": "adagrid",
}


def schema():
    columns = {
        "colour": {"kind": "string", "values": ["red", "green", "blue"]},
        "size": {"kind": "integer", "min": 1, "max": 4},
        "age": {"kind": "integer", "min": 0, "max": 9, "overflow": "clamp"},
    }
    return fastdp.Schema.from_dict({"user": {"column": "u", "max_rows": 3}, "columns": columns})


def data(rows=60_000, colours=("red", "green", "blue"), seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "u": np.arange(rows) // 2,
            "colour": pa.array(np.array(colours)[rng.integers(0, len(colours), rows)]),
            "size": rng.integers(1, 5, rows),
            "age": rng.integers(0, 10, rows),
        }
    )


SPELT = ("RED", "GREEN", "BLUE")


@pytest.fixture
def draws(monkeypatch):
    """How many random numbers were drawn, call by call."""
    sizes = []
    plain = noise.gaussian

    def counted(scale, size, **options):
        drawn = plain(scale, size, **options)
        sizes.append(int(np.size(drawn)))
        return drawn

    monkeypatch.setattr(noise, "gaussian", counted)
    return sizes


@pytest.mark.parametrize("name", first(3, MECHANISMS))
def test_what_was_drawn_is_charged_and_the_rest_goes_back(tmp_path, draws, name):
    """Numbers drawn against numbers entered, and the budget left against the steps' own mu,
    exactly."""
    ledger = open_ledger(tmp_path, "people", epsilon=5.0, delta=DELTA)
    options = {"schema": schema(), "ledger": ledger, "dataset": "people"}
    with pytest.raises(
        StoppedEarly, match=r"'colour' \(.*outside the schema's domain\).*went back"
    ) as stop:
        fastdp.synthesize(data(colours=SPELT), MECHANISMS[name], 1.5, DELTA, **options)
    assert "ignore_empty_columns=True" in str(stop.value) and "fastdp check" in str(stop.value)
    (entry,) = ledger.entries("people")
    assert entry["finished"] and all(step["answered"] for step in entry["steps"])
    assert len(entry["steps"]) <= 2  # rows per user, then the 1-ways
    assert sum(draws) == sum(step["draws"] for step in entry["steps"])
    events = [event for step in entry["steps"] for event in step["events"]]
    assert entry["charged"] == events and events
    mus = [Fraction(mu_of(event_from_dict(e))) for e in events]
    # What is left, spent to the last bit together with what was drawn, is the budget and no more.
    left = ledger.remaining("people")["mu"]
    budget = mu_from(5.0, DELTA)
    assert Fraction(left) ** 2 + sum(m**2 for m in mus) == pytest.approx(
        Fraction(budget) ** 2, rel=1e-12
    )
    assert left > 0.6 * budget
    again = fastdp.synthesize(
        data(), "mst", 3.0, DELTA, schema=schema(), ledger=ledger, dataset="people", rows=10
    )
    assert again.data.num_rows == 10  # 3 would not have fitted beside a whole run of 4
    assert mu_from(4.0, DELTA) ** 2 + mu_from(3.0, DELTA) ** 2 > budget**2


def test_going_on_is_possible_and_good_data_never_stops(tmp_path):
    for rows, options in ((data(colours=SPELT), {"ignore_empty_columns": True}), (data(), {})):
        run = fastdp.synthesize(rows, "mst", 4.0, DELTA, schema=schema(), **options)
        assert run.data.num_rows > 1000


@pytest.mark.parametrize(
    ("sigma", "known", "where", "stops"),
    [
        (5.0, 0, "null_code", True),
        (5.0, 400, "null_code", False),
        (400.0, 0, "null_code", False),
        (400.0, 0, "overflow_code", True),
        (400.0, 4000, "overflow_code", False),
        (2000.0, 0, "overflow_code", False),
    ],
)
def test_the_rule_for_stopping_after_the_first_answers(sigma, known, where, stops):
    """Next to nothing known: yes. Four in a hundred known: a sparse column, no. Much noise: of
    nulls nothing is said, of overflow something. All is noise: nothing is said."""
    sizes = {name: np.zeros(column.size) for name, column in schema().columns.items()}
    for name, column in schema().columns.items():
        sizes[name][0] = 10_000
        if name == "colour":
            sizes[name][:] = 0
            sizes[name][1] = known
            sizes[name][getattr(column, where)] = 10_000 - known
    ones = [Measurement((name,), values, sigma) for name, values in sizes.items()]
    empty = empty_columns(schema(), ones)
    assert [e.name for e in empty] == (["colour"] if stops else [])
    assert empty_columns(schema(), ones, {"colour"}) == []
    if stops:
        assert max(empty[0].null, empty[0].outside) == pytest.approx(1)


def test_only_noisy_answers_decide(tmp_path):
    """A run dies after its 1-ways were stored and is resumed on other rows, good ones: it reads the
    stored answers and stops by them. A rule that looked at the rows would go on."""
    ledger = open_ledger(tmp_path, "people", epsilon=5.0, delta=DELTA)
    options = {"schema": schema(), "ledger": ledger, "dataset": "people", "out": tmp_path / "run"}
    with killed_at("fastdp.run.execute.stop_if_empty"):
        fastdp.synthesize(data(colours=SPELT), "mst", 4.0, DELTA, **options)
    before = ledger.entries("people")[0]["steps"]
    with pytest.raises(StoppedEarly):
        fastdp.synthesize(data(), "mst", 4.0, DELTA, resume=True, **options)
    assert (
        ledger.entries("people")[0]["steps"] == before and ledger.entries("people")[0]["finished"]
    )
    # The other way round: good answers are stored, the rows are bad when it comes back. It goes on.
    options["out"] = tmp_path / "other"
    with killed_at("fastdp.run.execute.stop_if_empty"):
        fastdp.synthesize(data(), "mst", 0.5, DELTA, **options)
    assert fastdp.synthesize(
        data(colours=SPELT), "mst", 0.5, DELTA, resume=True, **options
    ).out.is_dir()


@pytest.mark.parametrize(
    "where", ["release.reserve.Reserved.finish", "run.folder.RunFolder.forget"]
)
def test_a_stop_that_is_killed_halfway_ends_on_resume(tmp_path, where):
    ledger = open_ledger(tmp_path, "people", epsilon=5.0, delta=DELTA)
    options = {"schema": schema(), "ledger": ledger, "dataset": "people", "out": tmp_path / "run"}
    with killed_at(f"fastdp.{where}"):
        fastdp.synthesize(data(colours=SPELT), "mst", 4.0, DELTA, **options)
    kept = json.loads((tmp_path / "run.private" / "state.json").read_text())
    for insist in ({"ignore_empty_columns": True}, {}):
        if (tmp_path / "run.private" / "state.json").exists():
            with pytest.raises(StoppedEarly, match="went back") as stop:
                fastdp.synthesize(data(), "mst", 4.0, DELTA, resume=True, **options, **insist)
            assert str(stop.value) == kept["stopped"]
    (entry,) = ledger.entries("people")
    assert entry["finished"] and entry["charged"]
    assert (
        not (tmp_path / "run").exists() and not (tmp_path / "run.private" / "state.json").exists()
    )
    done = fastdp.synthesize(data(), "mst", 4.0, DELTA, **options)
    assert done.out == tmp_path / "run"


def test_of_several_epsilons_the_first_decides(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "fastdp.run.execute.stop_if_empty", lambda schema, learnt, ones: asked.append(len(ones))
    )
    runs = fastdp.synthesize(data(2000), "mst", [1.0, 2.0], DELTA, schema=schema(), rows=5)
    assert len(runs) == 2 and asked == [3]


PIECES = [f"{i % 30} pcs" for i in range(3000)]


@pytest.mark.parametrize("overflow", ["clamp", "code"])
@pytest.mark.parametrize("kind", ["integer", "numeric"])
@pytest.mark.parametrize("source", first(1, ["frame", "text"]))
def test_a_column_whose_type_changed_stops_the_run(tmp_path, kind, overflow, source):
    """All rows are left out where nulls are dropped; the run stops, and `check` says how many."""
    column = {"kind": "integer", "max": 30}
    if kind == "numeric":
        column = {"kind": "numeric", "dtype": "float64", "edges": [0, 10, 20, 30]}
    column |= {"overflow": overflow, "null": "drop"}
    plain = {"columns": {"n": column, "b": {"kind": "integer", "max": 2}}}
    frame = pl.DataFrame({"n": PIECES, "b": np.arange(3000) % 3})
    frame.write_csv(tmp_path / "a.csv")
    rows = frame if source == "frame" else tmp_path / "a.csv"
    changed = fastdp.Schema.from_dict(plain)
    with pytest.raises(StoppedEarly, match=r"no (rows|known value).*'n'.*fastdp check"):
        fastdp.synthesize(rows, "mst", 3.0, DELTA, schema=changed)
    assert fastdp.check(rows, changed).dropped == 3000 - fastdp.read(rows, changed).rows
    run = fastdp.synthesize(rows, "mst", 3.0, DELTA, schema=changed, ignore_empty_columns=True)
    assert run.privacy["mechanism"]["name"] == "mst"
    good = frame.with_columns(n=pl.Series(np.arange(3000) % 30))
    assert fastdp.synthesize(good, "mst", 3.0, DELTA, schema=changed).data.num_rows > 2000


def test_an_empty_table_warns_in_python(caplog):
    empty = data().slice(0, 0)
    with caplog.at_level("WARNING", "fastdp"):
        fastdp.synthesize(empty, "mst", 3.0, DELTA, schema=schema())
    assert "the table may be empty" in caplog.text
    caplog.clear()
    with caplog.at_level("WARNING", "fastdp"):
        fastdp.synthesize(data(), "mst", 3.0, DELTA, schema=schema())
    assert "may be empty" not in caplog.text
