"""The page's data and its HTML, without a browser."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from fastdp.errors import RunError, UsageError
from fastdp.report import collect as collecting
from fastdp.report import page as report
from fastdp.report import places, svg, words
from fastdp.report import scores as scoring

from . import pages

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Checks that tags nest, and keeps ids, links, and where something would be loaded from."""

    def __init__(self, html: str):
        super().__init__()
        self.open, self.ids, self.sources, self.anchors, self.text = [], [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "a":
            self.anchors.append(attributes["href"])
        self.sources += [v for k, v in attrs if k in ("src", "href", "srcset", "action") and tag != "a"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)


@pytest.fixture(scope="module")
def data():
    return report.collect(pages.table(), pages.table(seed=1, tilt=1.2), None, pages.scores(), pages.run())


def test_data_is_plain_json(data):
    again = json.loads(json.dumps(data, allow_nan=False))
    assert report.render(again) == report.render(data)


def test_page_is_well_formed_and_loads_nothing(data):
    page = Page(report.render(data))
    assert page.sources == ["data:,"]
    assert len(set(page.ids)) == len(page.ids)
    assert all(a.startswith("#") and a[1:] in page.ids for a in page.anchors)
    html = report.render(data)
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "") and "https://" not in html
    assert "url(" not in html and "@import" not in html


def test_every_section_is_there(data):
    page = Page(report.render(data))
    wanted = {
        "summary",
        "scores",
        "groups",
        "columns",
        "pairs",
        "worst",
        "areas",
        "users",
        "noise",
        "fit",
        "stages",
    }
    assert wanted <= set(page.ids)
    assert "months" not in page.ids  # this table has no month


def test_page_with_the_truth_says_so(data):
    shown = " ".join(Page(report.render(data)).text)
    assert "Not private." in shown and "do not publish" in shown
    assert "May be published" not in shown


def test_labels_are_escaped(data):
    html = report.render(data)
    assert "<Card>" not in html and "Credit &amp; &lt;Card&gt;" in html
    assert "taxi <test>" not in html


def test_shares_and_distance_by_hand():
    like = pages.schema(user=None)
    truth, made = pages.table(500, 1, like=like), pages.table(400, 2, like=like)
    facts = report.collect(truth, made)
    for c in facts["columns"]:
        n = c["size"]
        p = np.bincount(truth.codes[c["name"]], minlength=n) / 500
        q = np.bincount(made.codes[c["name"]], minlength=n) / 400
        assert c["tables"][0]["tv"] == pytest.approx(np.abs(p - q).sum() / 2)
        assert sum(c["truth"]) == pytest.approx(1, abs=1e-4)
        assert sum(c["tables"][0]["share"]) == pytest.approx(1, abs=1e-4)
    names = facts["pairs"]["names"]
    a, b = truth.codes[names[1]], truth.codes[names[0]]
    joint = np.zeros((57, 21))
    np.add.at(joint, (a, b), 1 / 500)
    np.add.at(joint, (made.codes[names[1]], made.codes[names[0]]), -1 / 400)
    assert facts["pairs"]["tables"][0][1][0] == pytest.approx(np.abs(joint).sum() / 2, rel=1e-3)


def test_worst_cells_by_hand():
    like = pages.schema(user=None)
    truth = pages.table(600, 3, like=like)
    made = pages.table(600, 3, like=like)
    made.codes = {k: v.copy() for k, v in made.codes.items()}
    made.codes["payment_type"][:] = 2
    worst = report.collect(truth, made)["worst"][0]
    assert worst and all("payment_type" in c["columns"] for c in worst)
    gaps = [abs(c["truth"] - c["table"]) for c in worst]
    assert gaps == sorted(gaps, reverse=True)


def test_compiled_pair_counts_equal_plain_ones():
    from fastdp.schema import Schema
    from fastdp.tables.table import Table

    rng = np.random.default_rng(5)
    codes = {"a": rng.integers(0, 7, 300), "b": rng.integers(0, 300, 300), "c": rng.integers(0, 3, 300)}
    domain = Schema.from_domain({"a": 7, "b": 300, "c": 3})
    real = Table.from_codes(domain, codes, public=True)
    labels = {n: ([str(i) for i in range(size)], False) for n, size in (("a", 7), ("b", 300), ("c", 3))}
    fast = collecting.coded(real, domain, "x")
    slow = collecting.Coded(fast.codes, None, fast.rows)
    cliques = [("a", "b"), ("a", "c"), ("b", "c")]
    for p, q in zip(*(collecting._joints(t, cliques, [1, 1, 1], labels) for t in (fast, slow)), strict=True):
        np.testing.assert_allclose(p, q)


def test_tables_read_from_frames_and_without_a_schema():
    import polars as pl

    rng = np.random.default_rng(0)
    truth = pl.DataFrame(
        {"colour": rng.choice(["red", "green", "blue"], 200), "size": rng.integers(0, 9, 200)}
    )
    made = pl.DataFrame(
        {"colour": rng.choice(["red", "green", "violet"], 200), "size": rng.integers(0, 9, 200)}
    )
    facts = report.collect(truth, made)
    assert [c["name"] for c in facts["columns"]] == ["colour", "size"]
    assert facts["columns"][0]["tables"][0]["tv"] > 0.2
    Page(report.render(facts))


def test_several_tables_in_one_page():
    runs = [pages.run(), pages.run(privacy=pages.statement(epsilon=10.0, mu=1.9))]
    synthetic = {"ε = 1": pages.table(seed=1, tilt=1.4), "ε = 10": pages.table(seed=2)}
    facts = report.collect(pages.table(), synthetic, None, [pages.scores(600), pages.scores(900)], runs)
    page = report.render(facts)
    Page(page)
    assert [t["name"] for t in facts["tables"]] == ["ε = 1", "ε = 10"]
    assert page.count("data-pick=") == 2
    assert facts["scores"][0]["values"] == [600.0, 900.0]
    assert "Better than a 1 % sample" in page and "Closer to the truth than a 10 % sample" in page


def test_lists_must_match_the_tables():
    both = {"a": pages.table(50), "b": pages.table(50)}
    with pytest.raises(UsageError, match="one per synthetic table"):
        report.collect(pages.table(50), both, None, pages.scores())
    with pytest.raises(UsageError, match="3 entries of run for 2"):
        report.collect(pages.table(50), both, None, None, [None] * 3)
    with pytest.raises(UsageError, match="at least one"):
        report.collect(pages.table(50), {})


def test_facts_that_are_absent_leave_no_section():
    page = Page(report.render(report.collect(pages.table(300), pages.table(300, 1))))
    assert not {"scores", "noise", "fit", "stages", "groups"} & set(page.ids)
    assert "No privacy statement" in " ".join(page.text)


@pytest.mark.parametrize("sizes", [(0, 0), (0, 30), (30, 0), (1, 1)])
def test_tables_with_few_or_no_rows(sizes):
    truth, made = pages.table(sizes[0]), pages.table(sizes[1], 1)
    facts = report.collect(truth, made)
    page = report.render(facts)
    Page(page)
    assert "nan" not in json.dumps(facts).lower()
    if 0 in sizes:
        assert "Nothing to compare" in page
    if sizes == (0, 30):
        assert facts["columns"][0]["tables"][0]["tv"] == 1.0


def test_one_column_without_users():
    from types import SimpleNamespace

    like = SimpleNamespace(columns={"a": pages.column("a", ["x", "y"])}, user=None, name=None)
    facts = report.collect(pages.table(50, like=like), pages.table(50, 1, like=like))
    assert facts["pairs"] is None and facts["users"] is None
    Page(report.render(facts))


def test_month_by_area_picture():
    facts = report.collect(pages.incidents(), pages.incidents(2500, 1))
    p = facts["periods"]
    assert len(p["rows"]) == collecting.MAX_PERIOD_ROWS and p["columns"][0] == "1" and p["folded"] == 20
    assert sum(map(sum, p["truth"])) + p["rest"]["truth"] == 3000
    assert sum(map(sum, p["tables"][0])) + p["rest"]["tables"][0] == 2500
    page = Page(report.render(facts))
    assert "months" in page.ids
    assert "year" not in facts["pairs"]["names"]  # a constant column says nothing in a pair


def test_a_large_table_stays_light():
    from types import SimpleNamespace

    columns = [pages.column(f"c{i}", [f"value {j}" for j in range(200)]) for i in range(60)]
    like = SimpleNamespace(columns={c.name: c for c in columns}, user="id", name="wide")
    page = report.render(report.collect(pages.table(2000, like=like), pages.table(2000, 1, like=like)))
    assert len(page.encode()) < 1_500_000


def test_without_truth_holds_nothing_of_it(tmp_path):
    made, run = pages.table(seed=1), pages.run()
    first = report.write(
        tmp_path / "a.html", pages.table(), made, None, pages.scores(), run, without_truth=True
    )
    other = report.write(
        tmp_path / "b.html", pages.table(900, 8, tilt=3), made, None, None, run, without_truth=True
    )
    absent = report.write(tmp_path / "c.html", None, made, None, None, run, without_truth=True)
    assert first == other == absent
    texts = {(tmp_path / name).read_text(encoding="utf-8") for name in ("a.html", "b.html", "c.html")}
    assert len(texts) == 1
    page = Page(texts.pop())
    assert "May be published." in " ".join(page.text) and "Not private" not in " ".join(page.text)
    assert not {"scores", "pairs", "worst", "stages", "groups"} & set(page.ids)


def test_without_truth_leaves_out_times(tmp_path):
    facts = report.write(tmp_path / "a.html", None, pages.table(), None, None, pages.run())
    assert facts["runs"][0]["stages"] is None
    assert all(s["seconds"] is None for s in facts["runs"][0]["fit"]["trace"])


def test_without_truth_has_error_bars_from_the_noise():
    facts = report.collect(None, pages.table(), None, None, pages.run())
    by = {c["name"]: c["tables"][0]["error"] for c in facts["columns"]}
    assert by["company_id"] is None  # never measured
    # fare: measured alone, within (shift, fare), and within the triple, each cell with sigma 12.5
    precision = (1 + 1 / 21 + 1 / (21 * 78)) / 12.5**2
    assert by["fare"][0] == pytest.approx(2 / math.sqrt(precision) / 4000, rel=1e-4)
    assert 'class="e"' in report.render(facts)


@pytest.fixture
def run_folder(tmp_path):
    """A finished run folder as `synthesize` leaves it, small."""
    import polars as pl

    from fastdp.measurement import Measurement
    from fastdp.run.output import write_measurements
    from fastdp.schema import Schema

    place = tmp_path / "run"
    place.mkdir()
    domain = Schema.from_domain({"a": 4, "b": 6})
    domain.save(place / "schema.json")
    rng = np.random.default_rng(3)
    pl.DataFrame({"a": rng.integers(0, 4, 500), "b": rng.integers(0, 6, 500)}).write_parquet(
        place / "synthetic.parquet"
    )
    write_measurements(
        place,
        [Measurement(("a",), np.full(4, 125.0), 10.0), Measurement(("a", "b"), np.full(24, 20.0), 20.0)],
    )
    (place / "privacy.json").write_text(json.dumps(pages.statement(unit={"kind": "row", "column": None})))
    return place


def test_public_page_from_a_run_folder(run_folder, tmp_path):
    facts = report.write_public(tmp_path / "page.html", run_folder)
    assert facts["with_truth"] is False and facts["tables"][0]["rows"] == 500
    by = {c["name"]: c["tables"][0]["error"] for c in facts["columns"]}
    # a: once alone with sigma 10, once as a sum of six cells of sigma 20 each; b: as a sum of four
    assert by["a"][0] == pytest.approx(2 / math.sqrt(1 / 100 + 1 / (6 * 400)) / 500, rel=1e-4)
    assert by["b"][0] == pytest.approx(2 * math.sqrt(4 * 400) / 500, rel=1e-4)
    assert [(n["label"], n["sigma"], n["cells"]) for n in facts["runs"][0]["noise"]] == [
        ("a", 10.0, 4),
        ("a × b", 20.0, 24),
    ]
    Page((tmp_path / "page.html").read_text(encoding="utf-8"))


def test_public_page_follows_the_model():
    from fastdp.domain import Domain

    class Model:
        domain, total, ended = Domain({"shift": 21, "fare": 4}), 1000.0, "noise level"
        trace = ((1, 90.0, math.nan), (5, 12.0, math.nan))

        def answer(self, query, clique):
            n = query.shape[0]
            values = query @ (np.arange(n) * 2000.0 / (n * (n - 1)))
            return values, np.full(n, 5.0)

    facts = report.collect(None, pages.table(), None, None, {"privacy": pages.statement(), "model": Model()})
    by = {c["name"]: c["tables"][0] for c in facts["columns"]}
    assert by["shift"]["model"] and by["shift"]["share"] == pytest.approx(np.arange(21) / 210, abs=1e-5)
    assert by["shift"]["error"] == pytest.approx([2 * 5 / 1000] * 21)
    assert not by["fare"]["model"]  # coded otherwise by the model
    assert facts["runs"][0]["fit"]["stop"] == "noise level" and len(facts["runs"][0]["fit"]["trace"]) == 2
    assert "by the model that the table was drawn from" in report.render(facts)


def test_public_page_from_the_command_line(run_folder, tmp_path):
    from typer.testing import CliRunner

    from fastdp.cli.app import app

    asked = ["evaluate", str(run_folder), "--without-truth", "--out", str(tmp_path / "page.html")]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "May be published." in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_folder_without_a_statement_is_refused(tmp_path):
    with pytest.raises(RunError, match="no finished run folder"):
        report.write_public(tmp_path / "page.html", tmp_path)
    assert not (tmp_path / "page.html").exists()


def test_write_replaces_a_page_whole(tmp_path):
    target = tmp_path / "r.html"
    target.write_text("old")
    report.write(target, pages.table(100), pages.table(100, 1))
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_attacker_by_hand():
    assert words.attacker({"mu": 1.0}) == pytest.approx(0.691462461274013)
    assert words.attacker({"epsilon": math.log(3), "delta": 0.0}) == pytest.approx(0.75)
    assert words.attacker({"epsilon": math.log(3), "delta": 0.1}) == pytest.approx(3.1 / 4)
    assert words.attacker({"epsilon": 2000.0, "delta": 0.0}) == 1.0
    assert words.attacker({}) is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (900, "Closer to the truth than a 10 % sample"),
        (700, "Better than a 1 % sample of the truth, short of"),
        (100, "Less close"),
    ],
)
def test_verdict_follows_the_yardstick(value, said):
    facts = report.collect(pages.table(200), pages.table(200, 1), None, pages.scores(value))
    assert words.verdict(facts)[0].startswith(said)


def test_a_lead_on_one_score_is_no_victory():
    facts = report.collect(pages.table(200), pages.table(200, 1), None, pages.scores(811))
    for s in facts["scores"][1:]:
        s["values"] = [0.0 if s["better"] == "high" else 1.0]
    assert words.tally(facts, 0) == (1, 5)
    assert words.verdict(facts)[0].startswith("About as close to the truth as a 10 % sample")
    assert "It is closer than a 10 % sample on 1 of the 5 scores." in words.findings(facts)


def test_seeded_runs_raise_an_alarm():
    run = pages.run(privacy=pages.statement(private=False))
    page = report.render(report.collect(None, pages.table(200), None, None, run))
    assert "This run protects nobody" in page


def test_joint_runs_say_what_covers_what():
    part = {"asked": {"epsilon": 1.0}, "clip": 150, "releases": []}
    joint = pages.statement(epsilon=10.12, parts=[part, part | {"asked": {"epsilon": 10.0}}], part=1)
    page = report.render(report.collect(None, pages.table(200), None, None, {"privacy": joint}))
    assert "ε = 10.12" in page and "made with ε = 10; the figures above cover all 2 tables" in page


@pytest.mark.parametrize(
    ("mu", "said"),
    [
        (0.28, "can hardly tell"),
        (1.0, "can guess"),
        (2.07, "fairly, but not fully"),
        (9.0, "may well find out"),
    ],
)
def test_words_do_not_promise_more_than_the_figure(mu, said):
    assert said in words.promise_words(pages.statement(mu=mu, epsilon=100.0))[0]


def test_units_are_named_honestly():
    assert (
        words.one_unit({"unit": {"kind": "user", "column": "taxi_id"}})
        == "any one taxi with all of its records"
    )
    assert words.one_unit({"unit": {"kind": "event", "column": "taxi_id"}}) == "any single record"
    assert words.one_unit({"unit": {"kind": "row", "column": None}}) == "any single row"


def test_noise_comes_from_the_statement_where_measurements_are_absent():
    facts = report.collect(None, pages.table(200), None, None, {"privacy": pages.statement()})
    noise = facts["runs"][0]["noise"]
    assert [(n["label"], n["order"]) for n in noise] == [
        ("rows per user", 0),
        ("fare", 1),
        ("payment_type", 1),
        ("shift", 1),
    ]
    assert {n["label"]: n["cells"] for n in noise}["fare"] == 11


def test_chicago_has_every_area_once():
    (chicago,) = places.place_maps()
    assert sorted(chicago.tiles) == list(range(1, 78))
    assert len(set(chicago.tiles.values())) == 77 and len(chicago.names) == 77
    loop, ohare, hegewisch = (chicago.tiles[n] for n in (32, 76, 55))
    assert ohare[0] < loop[0] and loop[1] < hegewisch[1]


@pytest.mark.parametrize(
    ("label", "number"),
    [
        ("8", 8),
        ("8.0", 8),
        ("(The) Loop[11]", 32),
        ("O'Hare", 76),
        ("Beverly Hills", 72),
        ("0", None),
        ("-1", None),
        ("Gotham", None),
    ],
)
def test_areas_in_many_spellings(label, number):
    (chicago,) = places.place_maps()
    assert chicago.number(label) == number


def test_generic_grid_keeps_the_largest():
    labels = [f"Place {i}" for i in range(500)]
    weight = np.arange(500) / 500
    grid = places.layout("district", labels, weight)
    assert len(grid["tiles"]) == places.MAX_TILES
    assert min(t["code"] for t in grid["tiles"]) == 200
    assert len({(t["x"], t["y"]) for t in grid["tiles"]}) == places.MAX_TILES


def test_fold_keeps_all_rows():
    share = np.random.default_rng(0).dirichlet(np.ones(100))
    labels = [str(i) for i in range(100)]
    for ordered in (False, True):
        names, bar, folded = collecting.fold(labels, ordered, share)
        grouped = np.bincount(bar, weights=share)
        assert len(names) == len(grouped) and grouped.sum() == pytest.approx(1)
        assert folded == (0 if ordered else 100 - collecting.MAX_BARS + 1)


def test_scores_flatten_and_keep_their_order():
    lines = scoring.normalise([pages.scores(), None])
    assert [s["key"] for s in lines][:2] == ["deid2.overall", "deid2.k_marginal"]
    assert lines[0]["main"] and not any(s["main"] for s in lines[1:])
    assert lines[0]["values"] == [720.0, None]
    assert lines[0]["baselines"] == [
        {"name": "1 % sample", "value": 560.0},
        {"name": "10 % sample", "value": 810.0},
    ]
    assert scoring.normalise([{"kmarginal": {"score": float("nan")}}]) == []


def test_rows_per_user_by_hand():
    like = pages.schema()
    truth, made = pages.table(8, like=like), pages.table(8, 1, like=like)
    truth.user = np.array([0, 0, 0, 3, 3, 5, 5, 5], np.uint32)  # numbers 1, 2 and 4 belong to nobody
    made.user = np.arange(8, dtype=np.uint32)
    facts = report.collect(truth, made)
    rows = facts["users"]["rows"]
    assert rows["labels"] == ["1", "2", "3 and more"]
    assert rows["truth"] == pytest.approx([0, 1 / 3, 2 / 3], abs=1e-5) and rows["tables"] == [[1.0, 0.0, 0.0]]
    assert facts["users"]["mean"] == pytest.approx([8 / 3, 1.0])
    assert facts["truth"]["users"] == 3 and facts["tables"][0]["users"] == 8


def test_habits_by_hand():
    index, codes = np.array([0, 0, 0, 1, 1, 2]), np.array([4, 4, 1, 0, 2, 3])
    largest, distinct = collecting._habits(index, 3, codes, 5)
    assert largest.tolist() == [2, 1, 1] and distinct.tolist() == [2, 2, 1]


@pytest.mark.parametrize(
    ("share", "said"),
    [(0, "0 %"), (0.5, "50.0 %"), (0.0123, "1.2 %"), (0.00123, "0.12 %"), (1e-9, "0.0000 %")],
)
def test_percent(share, said):
    assert re.sub(r"\s", " ", svg.percent(share)) == said


def test_points_are_signed():
    assert (svg.points(0.012), svg.points(-0.0005), svg.points(0.0)) == ("+1.2", "−0.05", "0")


def test_tips_cannot_break_out():
    assert svg.tips(['a"b', "c|d", "<e>"]) == "a&quot;b|c/d|&lt;e&gt;"
