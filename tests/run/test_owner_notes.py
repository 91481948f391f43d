"""What is said before the spend, and what the owner alone is told after it."""

import logging

import numpy as np
import pytest

import fastdp
from fastdp.errors import BudgetError, DataError, SchemaError
from fastdp.release.domaincosts import rounded_up
from fastdp.schema.wide_bins import steps, wide_outer_bins
from tests.cli.test_app import fastdp_cli

ROWS = 2000
SCHEMA = {
    "user": {"column": "who", "max_rows": 20},
    "columns": {
        "paid": {"kind": "numeric", "domain": "private", "min": 0, "max": 100},
        "town": {"kind": "categorical", "domain": "private", "dtype": "string"},
    },
}


def rows():
    """One row in fifty has a negative number, which the public bounds leave out."""
    rng = np.random.default_rng(0)
    paid = np.where(np.arange(ROWS) % 50 == 0, -5, rng.integers(0, 100, ROWS))
    town = np.where(rng.random(ROWS) < 0.5, "zug", "bern")
    return [f"{i % 1000},{p},{t}\n" for i, (p, t) in enumerate(zip(paid, town))]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notes")
    (folder / "data.csv").write_text("who,paid,town\n" + "".join(rows()))
    fastdp.Schema.from_dict(SCHEMA).save(folder / "data.toml")
    return folder


def test_what_will_vanish_is_said_before_the_charge_as_the_plan_says_it(place, caplog, tmp_path):
    asked = {"epsilon": 1.0, "delta": 1e-6, "schema": place / "data.toml"}
    plan = fastdp.plan(asked["schema"], **{k: asked[k] for k in ("epsilon", "delta")}, rows=ROWS)
    assert plan.vanishing.startswith("values that fewer than about ") and "town" in plan.vanishing
    assert f"not for: {plan.vanishing}" in str(plan) and "paid" not in plan.vanishing
    bar = next(line.bar for line in plan.domain if line.column == "town")
    assert f" {rounded_up(bar):,} users" in plan.vanishing and bar <= rounded_up(bar) <= 1.1 * bar
    book = fastdp.Ledger(tmp_path / "budget.db")
    book.open("d", epsilon=0.5, delta=1e-5)
    with caplog.at_level(logging.WARNING), pytest.raises(BudgetError):
        fastdp.synthesize(place / "data.csv", **asked, ledger=book, dataset="d")
    assert plan.vanishing in caplog.text and not book.entries()


@pytest.mark.parametrize(("mechanism", "many"), [("auto", 200), ("mst", 200), ("adagrid", 400)])
def test_a_run_that_may_end_without_rows_is_told_before_the_charge(mechanism, many):
    """Of 30 users at epsilon .5 most runs end without rows, of `many` at 1 hardly one does (40 runs of
    each mechanism were made). Who reads the plan keeps the budget."""
    kinds = {"g": 3, "n": 9, "m": 30}
    columns = {name: {"kind": "integer", "max": most} for name, most in kinds.items()}
    user = {"column": "who", "max_rows": 20}
    schema = fastdp.Schema.from_dict({"user": user, "columns": columns})

    def told(epsilon, **of):
        plan = fastdp.plan(schema, mechanism, epsilon=epsilon, delta=1e-6, **of)
        return any("a table of no rows" in note for note in plan.notes)

    assert told(0.5, rows=30, users=30) and told(0.5, rows=30) and told(0.5, rows=90, users=30)
    assert not told(1.0, rows=3 * many, users=many) and not told(1.0, rows=10**6)


def test_the_owner_is_told_what_the_domain_left_out_and_nobody_else(place):
    synth = ("synth", "data.csv", "-e", "3", "-d", "1e-6", "-m", "mst", "--out", "run")
    done = fastdp_cli(*synth, cwd=place)
    notes = (place / "run.private" / "notes.txt").read_text("utf-8")
    assert "paid: negative numbers: 2 % of the rows" in notes
    assert "run.private/notes.txt (private" in done.stdout
    released = b"".join(f.read_bytes() for f in (place / "run").rglob("*") if f.is_file())
    for said in (done.stdout, done.stderr, released.decode("latin-1")):
        assert "negative numbers" not in said
    assert (place / "run.private" / "notes.txt").stat().st_mode & 0o077 == 0
    assert fastdp.verify(place / "run").ok


def test_neither_notes_nor_their_failure_show_outside_the_private_folder(place, monkeypatch):
    """They follow from true rows. If the line on notes, the file or the exit code depended on there
    being some, anybody who sees them would learn of the rows, and no noise would hide it."""

    def broken(*_):
        raise ValueError("row 7 holds 'secret'")

    asked = {"epsilon": 3.0, "delta": 1e-6, "mechanism": "mst"}
    public = {"columns": {"town": {"kind": "string", "values": ["zug", "bern"]}}}
    for name, patched in (("nothing", False), ("fails", True)):
        if patched:
            monkeypatch.setattr("fastdp.run.owner_notes.owner_notes", broken)
        schema = fastdp.Schema.from_dict(public)
        fastdp.synthesize(place / "data.csv", schema=schema, **asked, out=place / name)
        notes = (place / f"{name}.private" / "notes.txt").read_text("utf-8")
        assert ("could not be made" in notes) == patched and "secret" not in notes
        assert ("Nothing to note." in notes) != patched


def test_a_domain_in_which_nothing_was_found_has_its_report_and_its_check(tmp_path):
    """80 numbers that differ: no value has enough users, so every value is (other), and numbers of
    the source are still followed through the list of one word."""
    numbers = "".join(f"{1000 * i}\n" for i in range(80))
    (tmp_path / "t.csv").write_text(f"n\n{numbers}")
    ask = ("synth", "t.csv", "--domain", "private", "-e", "0.1", "-d", "1e-3", "-m", "mst")
    fastdp_cli(*ask, "--report", "--ignore-empty-columns", "--out", "run", cwd=tmp_path)
    assert fastdp.load_run(tmp_path / "run").schema.columns["n"].values == ("(other)",)
    told = (tmp_path / "run.private" / "notes.txt").read_text("utf-8")
    assert "n: values: 100 % of the rows lie outside" in told
    page = (tmp_path / "run.private" / "report.html").read_text("utf-8")
    assert "Where the error comes from" in page
    assert (
        "NOTHING FITS" in fastdp_cli("check", "t.csv", "-s", "run/schema.json", cwd=tmp_path).stdout
    )


def test_a_file_in_another_encoding_says_what_to_try(place):
    text = "who,paid,town\n" + "".join(rows()).replace("zug", "Genève").replace("bern", "Zürich")
    (place / "latin.csv").write_bytes(text.encode("latin-1"))
    synth = ("synth", "latin.csv", "-s", "data.toml", "-e", "3", "-d", "1e-6", "-m", "mst")
    fastdp_cli(*synth, "--out", "latin", cwd=place)
    notes = (place / "latin.private" / "notes.txt").read_text("utf-8")
    assert "2,000 of 2,000 lines could not be read" in notes
    assert 'dialect={"encoding": "cp1252"}' in notes


@pytest.mark.parametrize("dialect", [None, {"delimiter": " "}])
def test_a_file_aligned_by_blanks_says_what_to_try(tmp_path, dialect):
    lines = "".join(f"{i:<6} zug     {i % 7}\n" for i in range(30))
    (tmp_path / "a.csv").write_text(f"who    town    n\n{lines}")
    for call in (
        lambda: fastdp.draft(tmp_path / "a.csv", dialect=dialect),
        lambda: fastdp.synthesize(
            tmp_path / "a.csv", domain="private", user="who", epsilon=1.0, dialect=dialect
        ),
    ):
        with pytest.raises(DataError, match=r"aligned by blanks.*commas first.*sed -E"):
            call()


def test_lines_that_do_not_fit_their_header_say_what_to_try(tmp_path):
    (tmp_path / "bad.csv").write_text("who,town\n1 zug\n2 bern\n")
    with pytest.raises(SchemaError, match=r"no row can be read.*as many values.*delimiter"):
        fastdp.draft(tmp_path / "bad.csv")


def test_wide_outer_bins_warn_where_a_run_would_spread_rows_over_them(caplog):
    def of(edges, **more):
        entry = {"kind": "numeric", "edges": edges, **more}
        return fastdp.Schema.from_dict({"columns": {"paid": entry}})

    (said,) = wide_outer_bins(of([0, 10, 50, 10000]))
    assert "last bin, 50 to 10000, is 199 times" in said and "100" in said
    assert "first bin" in wide_outer_bins(of([-5000, 0, 10, 20]))[0]
    assert "last bin" in wide_outer_bins(of([0, 1e-9, 1e300]))[0], "the others are not 0 wide"
    (alone,) = wide_outer_bins(of([50, 10000]))
    assert (
        "only bin, 50 to 10000, holds all numbers" in alone
        and "Add edges such as 200, 500" in alone
    )
    assert "Add edges such as -2, -0.2, 0, 0.2, 2," in wide_outer_bins(of([-10, 10]))[0]
    for fine in (
        [0, 1, 10, 100, 1000, 10000],
        [0, 20, 50, 100, 500, 5000],
        [0, 10, float("inf")],
        [18, 99],  # an only bin at its distance from 0: a mean is known within a factor
        [-200, -100],
    ):
        assert wide_outer_bins(of(fine)) == []
    assert wide_outer_bins(of([0, 10, 50, 10000], means=[5, 20, 300])) == []
    plan = fastdp.plan(of([0, 10, 50, 10000]), "mst", epsilon=1.0, delta=1e-6, rows=100)
    assert said in plan.notes
    table = {"paid": [1.0, 60.0]}
    with caplog.at_level(logging.WARNING):
        fastdp.synthesize(_arrow(table), "mst", 1.0, 1e-6, schema=of([0, 10, 50, 10000]))
    assert said in caplog.text
    for low, high in ((50, 10000), (-5000, 0), (0, 3)):
        assert all(low < edge < high for edge in steps(low, high)) and len(steps(low, high)) >= 2


def _arrow(columns):
    import pyarrow as pa

    return pa.table(columns)


def test_several_epsilons_print_that_of_their_statements(place):
    synth = ("synth", "data.csv", "-e", "1,3", "-d", "1e-6", "-m", "mst", "--out", "two")
    lines = fastdp_cli(*synth, cwd=place).stdout.splitlines()
    stated = fastdp.load_run(place / "two" / "eps-1").privacy["epsilon"]
    assert stated > 3
    for line, own in zip(lines, ("1", "3")):
        assert line.startswith(f"two/eps-{own}  epsilon {own} at delta") or "clip" in line
    said = [line for line in lines if f"its statement says epsilon {stated:.4g}" in line]
    assert len(said) == 2
