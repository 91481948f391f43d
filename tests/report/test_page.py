"""The page's data and its HTML, without a browser."""

import json
import math
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.errors import RunError
from fastdp.report import collect, page as report, people_section, quotes, runs, svg, words
from fastdp.schema import Schema
from fastdp.significance import Z95

from . import pages

VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}


class Page(HTMLParser):
    """Checks that tags nest, and keeps ids, links, and where something would be loaded from."""

    def __init__(self, html: str):
        super().__init__()
        self.open = []
        self.ids = []
        self.sources = []
        self.anchors = []
        self.text = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "a":
            self.anchors.append(attributes["href"])
        self.sources += [
            v for k, v in attrs if k in ("src", "href", "srcset", "action") and tag != "a"
        ]
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
    return report.collect(
        pages.table(), pages.table(seed=1, tilt=1.2), None, pages.scores(), pages.run()
    )


def test_page_is_well_formed_escaped_loads_nothing_and_says_that_it_is_not_private(data):
    html = report.render(data)
    page = Page(html)
    assert page.sources == ["data:,"]
    assert len(set(page.ids)) == len(page.ids)
    assert all(a.startswith("#") and a[1:] in page.ids for a in page.anchors)
    assert (
        "http://" not in html.replace("http://www.w3.org/2000/svg", "") and "https://" not in html
    )
    assert "url(" not in html and "@import" not in html
    shown = " ".join(page.text)
    assert "Not private." in shown and "do not publish" in shown
    assert "May be published" not in shown
    assert "<Card>" not in html and "Credit &amp; &lt;Card&gt;" in html
    assert "taxi <test>" not in html


@pytest.mark.parametrize("sizes", [(0, 0), (0, 30), (30, 0), (1, 1)])
def test_tables_with_few_or_no_rows(sizes):
    truth = pages.table(sizes[0])
    made = pages.table(sizes[1], 1)
    facts = report.collect(truth, made)
    page = report.render(facts)
    Page(page)
    assert "nan" not in json.dumps(facts).lower()
    if 0 in sizes:
        assert "Nothing to compare" in page
    if sizes == (0, 30):
        assert facts["columns"][0]["tables"][0]["tv"] == 1.0


def test_without_truth_holds_nothing_of_it(tmp_path):
    """Scores compare with the truth, so a page without the truth ignores them."""
    made = pages.table(seed=1)
    run = pages.run()
    scored = report.write(
        tmp_path / "a.html", report.collect(None, made, None, pages.scores(), run)
    )
    assert scored == report.write(tmp_path / "b.html", report.collect(None, made, None, None, run))
    texts = {(tmp_path / name).read_text(encoding="utf-8") for name in ("a.html", "b.html")}
    assert len(texts) == 1
    page = Page(texts.pop())
    assert "May be published." in " ".join(page.text) and "Not private" not in " ".join(page.text)
    assert not {"scores", "pairs", "worst"} & set(page.ids)


def test_without_truth_leaves_out_what_is_not_known():
    facts = report.collect(None, pages.table(), None, None, pages.run())
    assert all(c["tables"][0]["span"] is None for c in facts["columns"])
    page = report.render(facts)
    assert "nothing says how far its numbers are from the truth" in page and 'class="e"' not in page


def test_a_filtered_marginal_that_kept_no_cell_is_not_listed():
    """Noise decides how many cells it keeps; with none there is no sigma to state."""
    empty = SimpleNamespace(clique=("a",), label="", values=np.zeros(0), sigma=np.zeros(0))
    some = SimpleNamespace(clique=("b",), label="", values=np.ones(2), sigma=np.array([3.0, 2.0]))
    run = SimpleNamespace(measurements=[empty, some])
    assert [(n["label"], n["sigma"]) for n in runs.noise(run, {}, {"a": 2, "b": 2})] == [("b", 2.0)]


def test_a_number_of_rows_is_not_given_in_users():
    """It is released in units of as many rows as a user may have: the page gives its noise in
    rows."""
    one = SimpleNamespace(
        clique=("users by RowsUpTo",), label="number of rows", values=np.ones(1), sigma=2.0
    )
    statement = {"mechanism": {"users": {"rows_up_to": {"most": 5}}}}
    (entry,) = runs.noise(SimpleNamespace(measurements=[one]), statement, {})
    assert entry["sigma"] == 10 and "± 10 rows" in runs.noise_html([entry], 100)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    rng = np.random.default_rng(3)
    place = tmp_path_factory.mktemp("page") / "run"
    rows = pa.table({"a": rng.integers(0, 4, 500), "b": rng.integers(0, 6, 500)})
    fastdp.synthesize(
        rows, "mst", 1.0, schema=Schema.from_domain({"a": 4, "b": 6}), out=place, seed=3
    )
    return place


def test_public_page_from_a_run_folder(run_folder, tmp_path):
    facts = report.write_public(tmp_path / "page.html", run_folder)
    run = fastdp.load_run(run_folder)
    assert facts["with_truth"] is False and facts["tables"][0]["rows"] == run.to_arrow().num_rows
    found = run.answer("share", "a")
    low, high = facts["columns"][0]["tables"][0]["span"]
    np.testing.assert_allclose(
        [low, high], [found["low"].to_numpy(), found["high"].to_numpy()], rtol=1e-4
    )
    for said, released in zip(facts["runs"][0]["noise"], run.measurements, strict=True):
        assert said["label"] == " × ".join(released.clique) and said["cells"] == len(
            released.values
        )
        assert said["sigma"] == pytest.approx(float(np.min(released.sigma)), rel=1e-3)
    (quoted,) = facts["quotes"][0]["pairs"]
    assert quoted["columns"] == ["a", "b"] and quoted["of"] == 24 and quoted["clear"] <= 24
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'class="e"' in page and "95 % interval" in page
    Page(page)


def test_bars_that_hold_several_values_have_wider_intervals(run_folder):
    """The sum of two shares is known within the sum of both half-widths, and no better than its
    noise."""
    spans = quotes.Intervals(quotes.facts_of(fastdp.load_run(run_folder), None))
    alone = spans.bars("a", np.arange(4), 4)
    together = spans.bars("a", np.array([0, 0, 1, 1]), 2)
    half = lambda s: (np.array(s[1]) - np.array(s[0])) / 2  # noqa: E731
    assert (half(together) <= half(alone)[::2] + half(alone)[1::2] + 1e-9).all()
    assert (half(together) > half(alone)[::2]).all()


def test_a_folder_without_a_statement_is_refused(tmp_path):
    with pytest.raises(RunError, match="not a finished run folder"):
        report.write_public(tmp_path / "page.html", tmp_path)
    assert not (tmp_path / "page.html").exists()


def test_bars_of_several_codes_have_the_ends_of_the_first_and_the_last():
    labels = [f"{i} to {i + 1}" for i in range(140)] + ["(null)"]
    bars, bar, _ = collect.fold(labels, ordered=True, weight=np.ones(141))
    step = int(np.bincount(bar)[0])
    assert step > 1 and bars[0] == f"0 to {step}" and bars[1] == f"{step} to {2 * step}"
    last = (len(bars) - 1) * step
    assert bars[-1] == ("(null)" if last == 140 else f"{last} to (null)")
    assert (
        collect.fold([str(i) for i in range(141)], True, np.ones(141))[0][0] == f"0 to {step - 1}"
    )


def test_numbers_to_quote_say_something_of_their_own():
    """A pair in which one value of a column stands clear says no more than the other column. The
    total of years or of latitudes is their number."""
    columns = {
        "a": {"kind": "integer", "min": 0, "max": 1},
        "b": {"kind": "integer", "min": 0, "max": 1},
        "c": {"kind": "integer", "min": 0, "max": 1},
        "born": {"kind": "integer", "min": 1900, "max": 2030},
        "paid": {"kind": "integer", "min": 0, "max": 99},
        "west": {"kind": "integer", "min": -100, "max": -60},
    }
    schema = Schema.from_dict({"columns": {n: c | {"null": "drop"} for n, c in columns.items()}})
    sizes = schema.domain
    flat = {n: np.full(size, 9_000 / size) for n, size in sizes.items()}
    in_two = np.array([4_500.0, 4_500, 0])
    in_one = np.array([9_000.0, 0, 0])
    flat |= {"a": in_two, "b": in_two, "c": in_one}
    counted = [fastdp.Measurement((n,), x, 2.0) for n, x in flat.items()]
    for names in (("a", "b"), ("a", "c")):
        cells = np.multiply.outer(flat[names[0]], flat[names[1]]) / 9_000
        counted.append(fastdp.Measurement(names, cells.reshape(-1), 5.0))
    facts = quotes.Facts.of({}, schema, counted, {}, None)
    labels = {n: ([str(i) for i in range(size)], False) for n, size in sizes.items()}
    found = quotes.quotes(facts, labels)
    assert [pair["columns"] for pair in found["pairs"]] == [["a", "b"]]
    told = {line["what"] for line in found["totals"]} | set(found["wide"])
    assert told == {"mean(born)", "mean(paid)", "sum(paid)", "mean(west)"}


def test_words_and_tips_of_the_page_state_the_right_figures():
    assert words.attacker_success({"mu": 1.0}) == pytest.approx(0.691462461274013)
    assert words.attacker_success({"epsilon": math.log(3), "delta": 0.0}) == pytest.approx(0.75)
    assert words.attacker_success({"epsilon": math.log(3), "delta": 0.1}) == pytest.approx(3.1 / 4)
    assert words.attacker_success({"epsilon": 2000.0, "delta": 0.0}) == 1.0
    assert words.attacker_success({}) is None
    assert words.one_unit({"unit": {"kind": "user", "column": "id"}}).startswith("any one user ")
    assert svg.within(1986.04, 1985.98, 1986.11) == [
        "1986.04",
        "1985.98",
        "1986.11",
    ], "not 1986 to 1986"
    assert svg.within(1.0, 1.0, 1.0) == ["1"] * 3 and svg.within(2e7, 1e7, 3e7)[1] == "1e+07"
    assert svg.tips(['a"b', "c|d", "<e>"]) == "a&quot;b|c/d|&lt;e&gt;"


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


def verdict(wrong):
    kinds = {
        k: {"what": f"{k} thing", "wrong": w, "mean": w / 2, "sample": None, "items": []}
        for k, w in wrong
    }
    worst = max(kinds, key=lambda k: kinds[k]["wrong"])
    found = {"worst": {"kind": worst, **kinds[worst]}, "kinds": kinds, "columns": {}}
    data = report.collect(
        pages.table(200), pages.table(200, 1), None, pages.scores() | {"original": found}
    )
    return words.distance(data), report.render(data)


def test_the_headline_is_the_worst_and_not_the_best():
    (headline, why), page = verdict([("column", 0.001), ("pair", 0.01), ("identity", 0.97)])
    assert headline.endswith("far off") and "identity thing" in why and "identity thing" in page
    assert verdict([("column", 0.001), ("pair", 0.01)])[0][0].endswith("close to the truth")


def follows(table):
    """How often a user pays the next time as this time: user by user."""
    shares = []
    for user in np.unique(table.user):
        own = np.flatnonzero(table.user == user)
        paid = table.codes["payment_type"][
            own[np.argsort(table.codes["shift"][own], kind="stable")]
        ]
        shares += [np.mean(paid[1:] == paid[:-1])] if len(own) > 1 else []
    return np.mean(shares)


def test_habits_of_synthetic_users_are_drawn_only_where_they_are_kept():
    """Random dealing makes habits that no true user has: the publishable page does not show
    them."""
    plain = report.collect(None, pages.table(), None, None, pages.run())
    assert plain["users"]["habits"] == [] and any(
        "random" in text for _, text in plain["limits"][0]
    )
    kept = {
        "agreement": {"company_id": 1, "shift": 1, "fare": 0},
        "constant": ["company_id"],
        "repeated": ["shift"],
    }
    run = pages.run(privacy=pages.statement(mechanism={"name": "cliquetree", "users": kept}))
    shown = report.collect(None, pages.table(), None, None, run)
    assert {h["name"].split()[-1] for h in shown["users"]["habits"]} == {"company_id", "shift"}
    assert shown["users"]["order"] == []
    near = ["payment_type", "payment_type"]
    order = {
        "columns": ["shift"],
        "pairs": [[*near, 0.4, 0.2]],
        "chains": [near],
        "standard_error": 0.1,
    }
    kept["order"] = order
    for truth in (None, pages.table(seed=1)):
        drawn = report.collect(truth, pages.table(), None, None, run)
        (order,) = drawn["users"]["order"]
        assert order["name"] == "payment_type, and payment_type of the next row"
        assert "payment_type of the next row" in report.render(drawn)
        assert np.allclose(np.array(order["span"])[:, 0], [0.4 - 0.1 * Z95, 0.4 + 0.1 * Z95])
        for table, shares in ((truth, order["truth"]), (pages.table(), order["tables"][0])):
            assert (shares is None) == (table is None)
            assert table is None or np.isclose(shares[0], follows(table), rtol=1e-5)
    assert any("company_id" in text for _, text in shown["limits"][0])
    assert any("do not keep" in text and "fare" in text for _, text in shown["limits"][0])


def test_truth_values_of_a_text_file_stay_the_texts_that_the_schema_lists(tmp_path):
    """A private domain of a text file lists `True` and `False` as texts; the report read them as truth
    values, of which the list has none, and could not be made after the charge."""
    rng = np.random.default_rng(0)
    flags = np.where(rng.random(300) < 0.5, "True", "False")
    text = "u,back\n" + "\n".join(f"{i // 2},{flag}" for i, flag in enumerate(flags))
    (tmp_path / "t.csv").write_text(text)
    table = {"kind": "string", "values": ["False", "True"], "other": "(other)"}
    schema = fastdp.Schema.from_dict({"user": {"column": "u"}, "columns": {"back": table}})
    rows = pa.table({"u": np.arange(300) // 2, "back": flags})
    page = tmp_path / "page.html"
    scores = fastdp.evaluate(tmp_path / "t.csv", rows, schema=schema, report=page)
    assert scores["causes"] is not None and page.exists()


def test_cohorts_that_surely_have_nobody_have_no_share():
    """An interval from 0 to 0 divided the page for publication by zero after the charge."""
    assert people_section._ratio((0.0, 0.0), (0.0, 0.0)) is None
    assert people_section._ratio((1.0, 2.0), (4.0, 5.0)) == (0.2, 0.5)
