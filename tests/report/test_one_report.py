"""One report: `synth --report` and `evaluate --out` make the same page, in original values; linked
tables have one page too; the page that may be published says whose it is and where the rows are."""

import html as html_module
import re

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import UsageError
from fastdp.report import page as report
from tests.cli.test_app import fastdp_cli

from .test_page import Page

TOML = """name = "Visits"
[user]
column = "who"
max_rows = 40
order = "month"
amounts = ["paid"]
[columns]
month = {kind = "integer", min = 1, max = 6}
town = {kind = "categorical", values = ["a", "b"]}
paid = {kind = "numeric", edges = [0, 50, 100, 150, 200], digits = 2}
"""
ABOUT = {
    "title": "Visits of 2025",
    "license": "CC-BY-4.0",
    "contact": "data@example.org",
    "date": "2026-03-31",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run of the command line with a report, on a table whose towns are mostly not in the list:
    codes hide that, values do not."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(8)
    rows = 1500
    town = np.where(rng.random(rows) < 0.7, rng.integers(0, 40, rows).astype(str), "a")
    table = {"who": rng.integers(0, 600, rows), "month": rng.integers(1, 7, rows), "town": town}
    table["paid"] = np.round(rng.random(rows) * 200, 2)
    import pyarrow.csv as csv

    csv.write_csv(pa.table(table), folder / "visits.csv")
    (folder / "visits.toml").write_text(TOML)
    asked = ("-e", "5", "-d", "1e-6", "--numbers", "sum(paid) by month", "--numbers", "mean(paid)")
    fastdp_cli("synth", "visits.csv", *asked, "--out", "run", "--report", "-q", cwd=folder)
    return folder


def test_both_commands_make_the_same_page_in_original_values(place):
    fastdp_cli("evaluate", "visits.csv", "run", "--out", "again.html", cwd=place)
    made = (place / "run.private" / "report.html").read_text("utf-8")
    assert made == (place / "again.html").read_text("utf-8")
    shown = " ".join(Page(made).text)
    assert "At worst: far off" in shown and "Only codes" not in shown
    assert "Where the error comes from" in shown
    of_town = made[made.index('id="causes"') :]
    assert re.search(r"town.*?\+[67]\d\.\d", of_town, re.S), "the domain lost 7 of 10 towns"


@pytest.mark.slow
def test_a_stream_is_compared_in_codes_and_the_page_says_so(place):
    table = fastdp.read(place / "visits.csv", place / "visits.toml", public=True)
    run = fastdp.synthesize(table, epsilon=5.0, delta=1e-6, out=place / "coded", report=True)
    page = (place / "coded.private" / "report.html").read_text("utf-8")
    assert run.out is not None and "Only codes of the schema were compared" in page


def test_the_page_says_whose_it_is_and_links_the_rows(place):
    run = fastdp.load_run(place / "run")
    run.page(place / "page.html", about=ABOUT)
    page = Page((place / "page.html").read_text("utf-8"))
    shown = " ".join(page.text)
    for said in (*ABOUT.values(), "Totals and means", "sum(paid) by month", "one row"):
        assert said in shown
    assert "run/synthetic.parquet" in page.anchors and (place / "run/synthetic.parquet").exists()
    toml = "".join(f'{key} = "{value}"\n' for key, value in ABOUT.items())
    (place / "about.toml").write_text(toml)
    same = ("--without-truth", "--out", "same.html", "--about", "about.toml")
    fastdp_cli("evaluate", "run", *same, cwd=place)
    assert (place / "same.html").read_bytes() == (place / "page.html").read_bytes()
    (place / "about.toml").write_text(f'{toml}base = "https://example.org/visits"\n')
    fastdp_cli("evaluate", "run", *same, cwd=place)
    published = Page((place / "same.html").read_text("utf-8"))
    assert "https://example.org/visits/synthetic.parquet" in published.anchors
    deep = place / "site" / "pages"
    deep.mkdir(parents=True)
    run.page(deep / "page.html", about={})
    assert not [a for a in Page((deep / "page.html").read_text("utf-8")).anchors if "parquet" in a]
    with pytest.raises(UsageError, match="unknown field 'licence'"):
        run.page(place / "page.html", about={"licence": "typo"})


def test_true_figures_of_users_stand_beside_released_ones_for_the_owner_alone(place):
    run = fastdp.load_run(place / "run")
    private = report.collect(place / "visits.csv", run.data, run.schema, None, run)
    public = report.collect(None, run.data, run.schema, None, run)
    true, made = private["people"]["tables"]
    low, high = private["people"]["released"][0]["repeat"]
    assert low - 0.1 < true["repeat"] < high + 0.1
    low, high = private["people"]["released"][0]["top"]["paid"]
    assert 0.1 <= low < true["top"]["paid"] < high <= 1  # of the true users, in both pages
    last = private["people"]["released"][0]["last"]
    assert all(a - 0.1 < share < b + 0.1 for share, (a, b) in zip(true["last"], last))
    for figures in (true, made):  # who has rows in k periods stays as many at least
        assert all(a <= b for a, b in zip(figures["active"], figures["span"]))
        assert np.isclose(sum(figures["last"]), 1)
    assert public["people"]["tables"] == [made]
    assert public["people"]["released"] == private["people"]["released"]
    for facts, there in ((private, True), (public, False)):
        found = facts["quotes"][0]
        true_numbers = [found["rows"]["true"], *(t["true"] for t in found["totals"])]
        true_numbers += [line[-1] for one in found["periods"] for line in one["lines"]]
        true_numbers += [cell[-1] for one in found["pairs"] for cell in one["cells"]]
        assert all((number is not None) == there for number in true_numbers)
    rows = private["quotes"][0]["rows"]
    assert rows["true"] == 1500 and [p["column"] for p in private["quotes"][0]["periods"]] == [
        "month"
    ]
    html = report.render(private)
    assert '<th scope="col">truth</th>' in html and "released, 95 %" in html
    assert "By last month" in html and "3+ periods from first to last" in html


@pytest.mark.slow
def test_linked_tables_have_one_page(tmp_path):
    truth = fastdp.simulate.households(200, seed=2)
    asked = {"epsilon": 4.0, "delta": 1e-6, "out": tmp_path / "run"}
    run = fastdp.synthesize(truth, "households", **asked, report=True)
    fastdp.evaluate(truth, tmp_path / "run", report=tmp_path / "again.html")
    private = (tmp_path / "run.private" / "report.html").read_text("utf-8")
    assert private == (tmp_path / "again.html").read_text("utf-8")
    run.page(tmp_path / "page.html", about=ABOUT)
    public = (tmp_path / "page.html").read_text("utf-8")
    for html in (private, public):
        page = Page(html)
        assert len(set(page.ids)) == len(page.ids)
        assert all(a[1:] in page.ids for a in page.anchors if a.startswith("#"))
        shown = " ".join(page.text)
        assert "How the tables are linked" in shown and "No privacy statement" not in shown
        assert "Table households" in shown and "Table persons" in shown
    assert "rows whose key has a parent" in private and "rows whose key" not in public
    assert "run/table-persons/synthetic.parquet" in Page(public).anchors
    card = html_module.unescape(run._repr_html_())
    for name, table in truth.items():
        own = len(set(table.column_names) - {"household_id"})
        assert re.search(rf"synthetic rows, {own} columns", card), f"{name}: not those of its links"
    reader = truth["persons"].to_reader()
    asked["out"] = tmp_path / "other"
    with pytest.raises(UsageError, match="can be read only once"):
        fastdp.synthesize(truth | {"persons": reader}, "households", **asked, report=True)
