"""After a charge nothing is lost without a word: reports are made when the folder is in place, and
every error says what is charged and how to go on."""

import copy
import re
import shlex

import numpy as np
import polars as pl
import pytest

import fastdp
from fastdp.errors import (
    BudgetError,
    DataError,
    LedgerError,
    ModelTooLargeError,
    ReportError,
    RunError,
    SchemaError,
)
from fastdp.privacy.ledger import Reservation
from tests.cli.test_app import fastdp_cli
from tests.run.test_synthesize import RECIPE, go, small_data, small_schema
from tests.tiers import first

ORDERED = {
    "user": {"column": "u", "max_rows": 8, "order": "day"},
    "columns": {"day": {"kind": "integer", "max": 6}, "n": {"kind": "integer", "max": 3}},
}
FAILURES = (
    SchemaError("a schema"),
    DataError("some data"),
    IndexError("a value 4711"),
    MemoryError(),
    OSError(28, "No space left on device"),
)


def ordered_rows():
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {"u": np.arange(400) // 4, "day": rng.integers(0, 7, 400), "n": rng.integers(0, 4, 400)}
    )


def failing(error):
    def fail(*arguments, **options):
        raise copy.copy(error)

    return fail


def test_rows_in_order_have_a_report_and_scores(tmp_path):
    schema = fastdp.Schema.from_dict(ORDERED)
    rows = ordered_rows()
    fastdp.synthesize(rows, epsilon=3, delta=1e-6, schema=schema, out=tmp_path / "run", report=True)
    assert (tmp_path / "run.private" / "report.html").is_file()
    without_ids = rows.drop("u")
    for truth, made in ((rows, without_ids), (without_ids, rows), (without_ids, without_ids)):
        assert fastdp.evaluate(truth, made, schema)["kmarginal"]["score"] > 0


def test_a_table_of_the_column_of_the_order_alone_has_a_report(tmp_path):
    """No pair of columns follows each other from row to row there."""
    schema = fastdp.Schema.from_dict(ORDERED | {"columns": {"day": ORDERED["columns"]["day"]}})
    rows = ordered_rows().drop("n")
    fastdp.synthesize(rows, epsilon=3, delta=1e-6, schema=schema, out=tmp_path / "run", report=True)
    assert (tmp_path / "run.private" / "report.html").is_file()


@pytest.mark.parametrize("mechanism", first(1, ["cliquetree", "mst"]))
def test_a_run_of_users_makes_no_rows_where_none_are_wanted(mechanism):
    """The table about users has what is likely before it: that of rows of the model, of which there
    must be some."""
    schema = fastdp.Schema.from_dict(ORDERED)
    run = fastdp.synthesize(
        ordered_rows(), mechanism, epsilon=3, delta=1e-6, schema=schema, rows=0, seed=1
    )
    assert run.data.num_rows == 0 and run.data.column_names == ["u", "day", "n"]


@pytest.mark.parametrize("error", first(2, FAILURES), ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("place", ["fastdp.report.evaluate.evaluate", "fastdp.metrics.check.check"])
def test_a_report_that_fails_leaves_the_run_whole(tmp_path, monkeypatch, error, place):
    book = fastdp.Ledger(tmp_path / "budget.db")
    book.open("d", epsilon=9, delta=1e-5)
    options = {"schema": small_schema(), "ledger": book, "dataset": "d", "out": tmp_path / "run"}
    with monkeypatch.context() as patched:
        patched.setattr(place, failing(error))
        with pytest.raises(ReportError) as failed:
            go(small_data(), **options, report=True, diagnose=True)
    text = str(failed.value)
    assert fastdp.verify(tmp_path / "run", ledger=book).ok
    assert (
        failed.value.runs.privacy["epsilon"] == fastdp.load_run(tmp_path / "run").privacy["epsilon"]
    )
    assert [entry["finished"] for entry in book.entries()] == [True]
    assert "complete, charged epsilon 5" in text and "make it alone with: fastdp." in text
    assert "4711" not in text  # texts of other libraries could quote a value
    call = re.search(r"alone with: (fastdp\..*\))", text)[1]
    eval(call, {"fastdp": fastdp, "DATA": small_data()})
    assert (tmp_path / "run.private" / "report.html").is_file()


def test_the_command_line_names_the_command_for_the_report(tmp_path, monkeypatch):
    small_data().select(["u", "a", "b", "c"]).to_pandas().to_csv(tmp_path / "d.csv", index=False)
    small_schema().save(tmp_path / "s.toml")
    with monkeypatch.context() as patched:
        patched.setattr("fastdp.report.evaluate.evaluate", failing(SchemaError("broken")))
        done = fastdp_cli(
            *("synth", "d.csv", "-s", "s.toml", "-e", "3", "-d", "1e-6", "-m", "mst"),
            *("--out", "run", "--report", "-q"),
            cwd=tmp_path,
            check=False,
        )
    assert done.returncode == ReportError.exit_code == 12
    command = shlex.split(done.stderr.partition("alone with: ")[2])
    assert command[:3] == ["fastdp", "evaluate", "d.csv"]
    fastdp_cli(*command[1:], cwd=tmp_path)
    assert (tmp_path / "run.private" / "report.html").is_file()
    fastdp_cli("verify", "run", cwd=tmp_path)


@pytest.mark.parametrize(
    "error", [*FAILURES, ModelTooLargeError("too large"), BudgetError("no budget"), KeyError("k")]
)
@pytest.mark.parametrize("folder", [True, False])
def test_every_error_after_a_charge_says_what_is_charged(tmp_path, monkeypatch, error, folder):
    monkeypatch.setattr("fastdp.estimate.estimator.fit", failing(error))
    options = {"schema": small_schema(), **({"out": tmp_path / "run"} if folder else {})}
    with pytest.raises(Exception) as failed:
        go(small_data(), **options)
    text = str(failed.value)
    assert "charged" in text and "epsilon 5 at delta 1e-06" in text
    assert ("the same call and resume=True" in text) == folder
    assert (tmp_path / "run.private" / "state.json").exists() == folder
    if isinstance(error, fastdp.errors.FastdpError | MemoryError):
        assert type(failed.value) is type(error)
    else:
        assert type(failed.value) is RunError


def test_the_command_line_names_the_command_that_resumes(tmp_path, monkeypatch):
    pl.from_arrow(small_data()).write_csv(tmp_path / "d.csv")
    small_schema().save(tmp_path / "s.toml")
    command = ("synth", "d.csv", "-s", "s.toml", "-e", "3", "-d", "1e-6", "-m", "mst")
    command += ("--out", "run", "-q")
    with monkeypatch.context() as patched:
        patched.setattr("fastdp.estimate.estimator.fit", failing(ValueError("odd")))
        done = fastdp_cli(*command, cwd=tmp_path, check=False)
    assert done.returncode == RunError.exit_code and "charged: " in done.stderr
    again = shlex.split(done.stderr.strip().rpartition("with: ")[2])
    assert again == ["fastdp", *command, "--resume"]
    fastdp_cli(*again[1:], cwd=tmp_path)
    fastdp_cli("verify", "run", cwd=tmp_path)


def test_a_ledger_that_cannot_be_asked_does_not_cost_the_answers(tmp_path, monkeypatch):
    book = fastdp.Ledger(tmp_path / "budget.db")
    book.open("d", epsilon=9, delta=1e-5)
    options = {"schema": small_schema(), "ledger": book, "dataset": "d", "out": tmp_path / "run"}
    with monkeypatch.context() as patched:
        patched.setattr("fastdp.estimate.estimator.fit", failing(LedgerError("locked")))
        patched.setattr(Reservation, "describe", failing(LedgerError("locked")))
        with pytest.raises(LedgerError, match="resume=True"):
            go(small_data(), **options)
    made = go(small_data(), **options, resume=True)
    assert made.privacy["mechanism"]["name"] == RECIPE["mechanism"]
    assert len(book.entries()) == 1
