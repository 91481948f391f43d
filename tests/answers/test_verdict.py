"""Verdicts: what drowns by construction is named, what stands out is not."""

import html
import json
import math
import re

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.answers.answer import answer
from fastdp.answers.clipping import Clipping
from fastdp.answers.expected_precision import expected_precision, zipf, zipf_shares
from fastdp.answers.facts import Facts
from fastdp.answers.losses import losses
from fastdp.answers.precision import half_width
from fastdp.answers.released_precision import released_precision
from fastdp.answers.verdict import NO_MODELS, NO_TARGET, judge
from fastdp.errors import FastdpError
from fastdp.measurement import Measurement
from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.privacy.clip import size_edges
from fastdp.queries import Binned
from fastdp.report import page
from fastdp.run.linked_result import LinkedRun
from tests.builders import schema_with_users
from tests.cli.test_app import fastdp_cli


def test_before_a_run_columns_drown_by_their_size_and_effects_by_their_noise():
    ones = {"few": (2, 10.0), "many": (10**6, 100.0)}
    verdict = judge(expected_precision(ones, [((), 10.0)], 1000))
    assert any("many: mostly noise" in text for text in verdict.not_for) and not verdict.warn
    assert any("few" in text for text in verdict.good_for)
    effect = 2 * math.sqrt(2) * 1.96 * 10 / 1000
    assert any(
        f"differs by {math.ceil(1000 * effect) / 10} points" in line for line in verdict.figures
    )
    drowned = judge(expected_precision({"a": (1000, 100.0)}, [((), 9999.0)], 1000))
    assert drowned.warn and drowned.headline.startswith("Mostly noise")
    assert any("not even" in line for line in drowned.figures)
    nothing = judge(expected_precision({}, [], 1000))
    assert nothing.headline.startswith("Unknown: no share") and len(nothing.not_for) == 2


def test_a_typical_share_is_that_of_zipf_before_and_the_sum_of_squares_after():
    """The slow twin: the chance that two rows drawn at random have the same value."""
    shares = np.array([1 / k for k in range(1, 8)])
    shares /= shares.sum()
    assert zipf(7) == pytest.approx(sum(p * p for p in shares))
    counts = 1e6 * shares
    known = released_precision(
        Facts.of(
            {}, fastdp.Schema.from_domain({"a": 7}), [Measurement(("a",), counts, 1.0)], {}, None
        ),
        {},
        {},
    )
    assert known.columns[0].typical == pytest.approx(zipf(7), rel=1e-4)
    assert known.columns[0].half == pytest.approx(1.96 / 1e6, rel=1e-2)


@pytest.mark.parametrize(("rows", "drowns"), [(100_000, False), (0, True)])
def test_after_a_run_noise_alone_drowns(rows, drowns):
    rng = np.random.default_rng(rows)
    sizes = {a: 40 for a in "abc"}
    ones = [Measurement((a,), rows / 40 + 50 * rng.normal(size=40), 50.0) for a in sizes]
    verdict = judged({}, fastdp.Schema.from_domain(sizes), ones)
    assert verdict.warn is drowns
    assert any("0 of 3 are measured" in line for line in verdict.figures)
    listed = {"kind": "categorical", "dtype": "string", "values": ["x", "y"], "null": "drop"}
    few_have_a_listed_value = [Measurement(("a",), np.array([9.0, 1.0, 990.0]), 2.0)]
    schema = fastdp.Schema.from_dict({"columns": {"a": listed}})
    lost = judged({}, schema, few_have_a_listed_value)
    assert lost.warn and any("outside the domain" in text for text in lost.not_for)
    clamped_so_that_no_code_says_it = {"schema": {"found": {"missing": {"a": [0.8, 0.1]}}}}
    lost = judged(clamped_so_that_no_code_says_it, fastdp.Schema.from_domain({"a": 40}), ones[:1])
    assert lost.warn and drowns != any("outside the domain" in text for text in lost.not_for)


def judged(statement, schema, measurements):
    return judge(
        released_precision(Facts.of(statement, schema, measurements, {}, None), statement, {})
    )


def test_a_plan_says_what_its_budget_can_show():
    schema = fastdp.Schema.from_domain({"a": 2, "b": 500}, user="id")
    ask = ("cliquetree", 1.0, 1e-6)
    facts = {"rows": 10_000, "public": None}
    plans = [fastdp.plan(schema, *ask, users=u, **facts).verdict for u in (None, 100, 10_000)]
    alone = fastdp.plan(fastdp.Schema.from_domain({"a": 2}), *ask, users=9, **facts)
    assert "the schema has no user column" in alone.notes[-1], "rows would be protected, not people"
    assert "at clip 1," in plans[0].figures[0]
    clip = re.search(r"at clip (\d+)$", plans[1].figures[0])
    assert clip and 50 <= int(clip[1]) <= 100, "of users with 100 rows on average"
    assert any("b: mostly noise" in text for text in plans[1].not_for) and plans[2] != plans[1]
    small, large = (fastdp.plan(schema, "cliquetree", e, 1e-6, rows=10_000) for e in (0.1, 10.0))
    assert small.verdict != large.verdict
    text = str(large)
    assert text.index("What this budget can show on 10,000 rows") < text.index("marginal")
    assert json.loads(json.dumps(large.to_dict()))["verdict"] == large.verdict.to_dict()


def test_models_are_praised_only_where_a_target_is_named():
    """Rows made without a target can lose most of what predicts a column; nothing measures it."""
    schema = fastdp.Schema.from_domain({"a": 3, "b": 4})
    table = pa.table({"a": np.arange(3000) % 3, "b": np.arange(3000) % 4})
    for target, good, bad in ((None, False, True), ("b", True, False)):
        mechanism = CliqueTree(target=target)
        plan = fastdp.plan(schema, mechanism, 1.0, 1e-6, rows=3000)
        run = fastdp.synthesize(table, schema=schema, mechanism=mechanism, epsilon=1.0, delta=1e-6)
        for verdict in (plan.verdict, run.verdict):
            assert ("models that predict b" in verdict.good_for) is good
            assert (NO_MODELS in verdict.not_for) is bad
    alone = fastdp.plan(fastdp.Schema.from_domain({"a": 3}), "cliquetree", 1.0, 1e-6, rows=3000)
    assert NO_MODELS not in alone.verdict.not_for, "one column has nothing to predict it"


def test_a_target_is_advised_only_where_the_mechanism_can_be_told_of_one():
    """MST has no target: the advice led to a refusal."""
    schema = fastdp.Schema.from_domain({"a": 3, "b": 4})
    table = pa.table({"a": np.arange(300) % 3, "b": np.arange(300) % 4})
    plan = fastdp.plan(schema, "mst", 1.0, 1e-6, rows=300)
    run = fastdp.synthesize(table, schema=schema, mechanism="mst", epsilon=1.0, delta=1e-6)
    for verdict in (plan.verdict, run.verdict):
        assert NO_TARGET in verdict.not_for and NO_MODELS not in verdict.not_for
    with pytest.raises(FastdpError, match="target"):
        fastdp.plan(schema, {"mechanism": "mst", "target": "b"}, 1.0, 1e-6, rows=300)


def test_plan_and_run_agree_where_the_plan_knows_the_noise():
    """Columns by Zipf's law, no users: the plan's guess is true, so both use the same words. The
    plan knows the number of rows, the run has it with noise; the widths agree to a tenth."""
    rng = np.random.default_rng(5)
    sizes = {"a": 4, "b": 6, "c": 3}
    for rows in (300, 30_000):
        law = {n: 1 / np.arange(1, size + 1) for n, size in sizes.items()}
        table = pa.table(
            {n: rng.choice(sizes[n], rows, p=p / p.sum()).astype("int64") for n, p in law.items()}
        )
        schema = fastdp.Schema.from_domain(sizes)
        ask = {"mechanism": "mst", "epsilon": 1.0, "delta": 1e-9}
        before = fastdp.plan(schema, rows=rows, **ask).verdict
        after = fastdp.synthesize(table, schema=schema, **ask).verdict
        word = before.headline.split(":")[0]
        assert after.headline.startswith(word), (before.headline, after.headline)


def test_every_place_shows_the_same_verdict(tmp_path):
    """The command line, Python, the notebook, both pages and the JSON: word for word."""
    rng = np.random.default_rng(3)
    lines = ["a,b", *(f"{x},{y}" for x, y in rng.integers(0, 50, (300, 2)))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    fastdp.Schema.from_domain({"a": 50, "b": 50}).save(tmp_path / "t.toml")
    ask = ("synth", "t.csv", "-e", "0.1", "--memory", "1G")
    printed = fastdp_cli(*ask, "--report", cwd=tmp_path).stdout
    run = fastdp.load_run(tmp_path / "t.synthetic")
    verdict = run.verdict
    assert verdict.warn and verdict.headline.startswith("Mostly noise")
    assert verdict.headline in repr(run) and str(verdict) == "\n".join(verdict.lines)
    assert all(line in printed for line in verdict.lines)
    as_json = json.loads(fastdp_cli(*ask, "--json", "--out", "other", cwd=tmp_path).stdout)
    other = fastdp.load_run(tmp_path / "other")
    assert as_json["runs"][0]["verdict"] == other.verdict.to_dict()
    assert as_json["runs"][0]["notes"] == list(other.notes)
    page.write_public(tmp_path / "page.html", run.out)
    pages = [
        (tmp_path / "page.html").read_text(),
        (tmp_path / "t.synthetic.private" / "report.html").read_text(),
        html.unescape(run._repr_html_()),
    ]
    without_tags = [html.unescape(re.sub("<[^>]*>", "", one)) for one in pages]
    without_label = [re.sub("^(good|not) for: ", "", line) for line in verdict.lines]
    for said in without_label:
        assert all(said in one for one in without_tags), said


def test_where_a_user_has_one_row_nothing_is_said_of_its_rows_together():
    """Parents of linked tables: questions about people and the order of rows have no sense there."""
    said = {}
    for most in (1, 2):
        schema = schema_with_users({"a": 4}, max_rows=most)
        plan = fastdp.plan(schema, "mst", 1.0, 1e-6, rows=900, users=900, clip=1)
        said[most] = " ".join(plan.verdict.not_for)
    assert "order of a user" in said[2]
    assert "order of a user" not in said[1] and "about people" not in said[1]


def test_linked_runs_show_the_verdict_of_each_table():
    tables = {"homes": 4, "persons": 9}
    runs = {}
    for name, size in tables.items():
        schema = fastdp.Schema.from_domain({name[0]: size})
        table = pa.table({name[0]: np.arange(900) % size})
        runs[name] = fastdp.synthesize(table, schema=schema, mechanism="mst", epsilon=1, delta=1e-6)
    linked = LinkedRun(runs, schema=None)
    card = html.unescape(linked._repr_html_())
    for name, run in runs.items():
        assert linked.verdict[name] == run.verdict and linked.notes[name] == run.notes
        assert f"{name}: {run.verdict.headline}" in repr(linked)
        shown = html.unescape(re.sub("<[^>]*>", "", card))
        assert f"Table {name}" in shown and run.verdict.good_for[0] in shown


def test_a_run_that_counts_users_alone_says_that_nothing_is_known_of_its_rows(tmp_path):
    """No empty verdict: silence would read as praise. The plan says the same before the spend."""
    table = fastdp.simulate.incidents(300, seed=1)
    ask = {"mechanism": "incidents-usercounts", "epsilon": 1.0, "delta": 1e-6}
    run = fastdp.synthesize(table, **ask, out=tmp_path / "run")
    plan = fastdp.plan(rows=300, users=100, **ask)
    assert run.verdict == plan.verdict and run.verdict.headline in str(plan)
    assert "Unknown: no share" in repr(run)
    assert run.verdict.headline.removeprefix("Unknown: ") in html.unescape(run._repr_html_())


def test_a_plan_expects_wide_tables_to_take_longer():
    """Screening looks at every pair of columns; rows are the smaller part of the work of a small
    table."""
    few, many = (fastdp.Schema.from_domain({f"c{i}": 4 for i in range(n)}) for n in (20, 200))
    seconds = [
        fastdp.plan(schema=s, epsilon=1.0, delta=1e-6, rows=3000, threads=1).seconds
        for s in (few, many)
    ]
    assert seconds[1] > 5 * seconds[0]


def test_a_plan_judges_the_clip_that_a_run_would_choose(monkeypatch):
    """At clip C the noise is C times that at clip 1. If rows per user are geometric, the clip loses
    what is beyond it: (1 - 1 / mean)^C of the rows. The clip is at most the schema's bound, and
    without a guess of users it is 1 and loses nothing."""
    judged = []

    def watched(*given, **more):
        judged.append((given, more))
        return expected_precision(*given, **more)

    monkeypatch.setattr("fastdp.run.plan_verdict.expected_precision", watched)
    schema = schema_with_users({"a": 2, "b": 50}, max_rows=40)
    plans = [
        fastdp.plan(schema, "mst", 1.0, 1e-6, rows=10**7, users=users, clip="private")
        for users in (None, 10**7, 3 * 10**6, 10**6)
    ]
    (first, pairs, _), more = judged[0]
    assert more["clipping"].lost == 0 and "at clip 1," in str(plans[0])
    for ((ones, wider, _), more), plan, mean in zip(judged[1:], plans[1:], (1, 10 / 3, 10)):
        clip = plan.clip_expected
        assert mean <= 1 or clip > mean / 2, "as many rows are kept as a run keeps"
        assert more["clip"] == f"at clip {clip}" and f"(rows at clip {clip})" in str(plan)
        assert more["clipping"].lost == pytest.approx((1 - 1 / mean) ** clip, abs=0.03)
        for name, (cells, error) in ones.items():
            assert cells == first[name][0] and error == pytest.approx(first[name][1] * clip)
        for (names, error), (same, least) in zip(wider, pairs, strict=True):
            assert names == same and error == pytest.approx(least * clip)


def test_a_plan_and_its_run_agree_where_columns_are_measured_again():
    """A default run on few rows measures its columns again, out of the share for pairs, and its plan
    says so: the same word, and half-widths within a third. Planned as a run on many rows, they would
    be three times as wide (bills and tips of 244 guests)."""
    rng = np.random.default_rng(1)
    sizes = {"a": 3, "b": 3, "c": 5, "d": 7, "e": 12}
    table = pa.table({n: rng.choice(k, 244, p=zipf_shares(k)) for n, k in sizes.items()})
    schema = fastdp.Schema.from_domain(sizes)
    before = fastdp.plan(schema, epsilon=3.0, delta=1e-6, rows=244).verdict
    after = fastdp.synthesize(table, schema=schema, epsilon=3.0, delta=1e-6).verdict
    widths = [float(re.search(r"±([\d.]+)", v.headline)[1]) for v in (before, after)]
    assert before.headline.split(":")[0] == after.headline.split(":")[0] == "Usable"
    assert widths[0] == pytest.approx(widths[1], rel=1 / 3)
    pairs = [
        int(re.search(r"^pairs: (?:about )?(\d+) of", text)[1])
        for v in (before, after)
        for text in v.figures
        if text.startswith("pairs: ")
    ]
    for verdict, measured in zip((before, after), pairs):
        said = " ".join((*verdict.good_for, *verdict.not_for))
        told = [
            re.search(r"together, (?:about )?(\d+) of", said),
            re.search(r"(\d+) other measured", said),
        ]
        counted = sum(int(one[1]) for one in told if one)
        assert counted == measured or "the measured pairs are mostly noise" in said


def test_a_pair_of_merged_values_is_not_a_pair_that_can_be_answered():
    """1,000 rows over 20 values of `a`, of which all but one were merged in pairs. The pair's codes
    stand out of noise of 60 rows, as `a` in two codes would; its values, 20 rows each, do not."""
    schema = fastdp.Schema.from_domain({"a": 21, "b": 2})
    merged = np.array([0] + [1] * 20)
    codes = {"codes": pa.table({"column": ["a"] * 21, "code": range(21), "compressed": merged})}
    ones = [Measurement(("a",), np.r_[0.0, np.full(20, 50.0)], 5.0)]
    ones.append(Measurement(("b",), np.array([500.0, 500.0]), 5.0))
    pair = Measurement(("a", "b"), np.array([0.0, 0, 500, 500]), 60.0)
    for tables, column, good in (
        (codes, ones[0], False),
        ({}, Measurement(("a",), [1, 999], 5.0), True),
    ):
        if good:
            schema = fastdp.Schema.from_domain({"a": 2, "b": 2})
        facts = Facts.of({}, schema, [column, ones[1], pair], tables, None)
        said = judge(released_precision(facts, {}, tables))
        assert good == any("a with b" in text for text in said.good_for), said
        assert good != any("mostly noise" in text for text in said.not_for), said


def test_a_pair_in_coarser_cells_than_its_codes_is_not_a_pair_of_values_either():
    """The codes of `a` and `b` were not merged, but the pair was measured in halves of each: half of
    the 1,000 rows in either diagonal cell. Its 1,250 pairs of values have less than a row each, and
    are noise of 60."""
    schema = fastdp.Schema.from_domain({"a": 50, "b": 50})
    ones = [Measurement((n,), np.full(50, 20.0), 2.0) for n in "ab"]
    halves = np.arange(50) // 25
    pair = Measurement(
        ("a", "b"), np.array([500.0, 0, 0, 500]), 60.0, Binned((50, 50), (halves, halves))
    )
    facts = Facts.of({}, schema, [*ones, pair], {}, None)
    (known,) = released_precision(facts, {}, {}).pairs
    assert known.half == pytest.approx(1.96 * 60 / 1000, rel=1e-2)
    assert known.typical == pytest.approx(0.5 / 25 / 25, rel=0.1) and known.noise


def test_a_pair_with_a_column_whose_values_are_lost_says_nothing_of_how_they_go_together():
    """All rows of `a` lie outside its domain: a pair with it is `b` alone, however clear it is."""
    listed = {"kind": "categorical", "dtype": "string", "values": ["x", "y"], "null": "drop"}
    plain = fastdp.Schema.from_domain({"b": 2, "c": 2}).to_plain()
    plain["columns"]["a"] = listed
    schema = fastdp.Schema.from_dict(plain)
    ones = [Measurement((n,), np.array([600.0, 400]), 2.0) for n in "bc"]
    ones.append(Measurement(("a",), np.array([0.0, 0, 1000]), 2.0))
    lost = Measurement(("b", "a"), np.array([0.0, 0, 600, 0, 0, 400]), 2.0)
    told = Measurement(("b", "c"), np.array([500.0, 100, 100, 300]), 2.0)
    said = judged({}, schema, [*ones, lost, told])
    together = [text for text in said.good_for if "go together" in text]
    assert together and "1 of 3 pairs" in together[0] and together[0].endswith("b with c")
    assert any("1 measured pair of columns: most rows lie outside" in t for t in said.not_for)


def test_how_far_the_model_is_from_other_pairs_is_said_of_what_was_compared():
    """Merged values are compared as one, and rows that a clip leaves out not at all: the released
    distance is of the rest, and no praise where many rows are in merged values."""
    schema = fastdp.Schema.from_domain({"a": 4, "b": 2})
    clipped = fastdp.Schema.from_dict(schema.to_plain() | {"user": {"column": "u", "max_rows": 64}})
    ones = [Measurement(("a",), np.array([400.0, 300, 200, 100]), 2.0)]
    ones.append(Measurement(("b",), np.array([500.0, 500]), 2.0))
    far = {"columns": [["a", "b"]], "distance": [40.0], "standard_error": [1e-3]}
    tables = {"distances": pa.table(far)}
    merged = {"column": ["a"] * 4, "code": range(4), "compressed": [0, 1, 2, 2]}
    both = tables | {"codes": pa.table(merged)}
    users = [{1: 100.0, 64: 10.0}.get(e, 0.0) for e in size_edges(64)]
    part = {"clip": 16, "clip_choice": {"users": users, "bound": 64, "sigma": 0.01}}
    by_user = {"unit": {"kind": "user"}, "parts": [part]}
    said = {}
    for name, own, statement, released_tables in (
        ("plain", schema, {}, tables),
        ("merged", schema, {}, both),
        ("clipped", clipped, by_user, tables),
    ):
        facts = Facts.of(statement, own, ones, released_tables, None)
        said[name] = judge(released_precision(facts, statement, released_tables))
    about = "1 pair of columns, not measured: the model has about 2.0% of the rows"
    assert f"{about} in a wrong cell" in said["plain"].good_for
    apart = f"{about} in a wrong cell; it does not tell apart merged values of a"
    assert apart in said["merged"].not_for, "300 of 1,000 rows have one of the two merged values"
    assert f"{about} that count in a wrong cell" in said["clipped"].good_for


def test_a_plan_counts_the_pairs_that_would_stand_out_not_those_of_a_usual_column():
    """Of 2, 2, 300 and 300 values a pair stands out: that of the two short columns. A run that
    chooses two pairs may choose it."""
    ones = {"a": (2, 5.0), "b": (2, 5.0), "c": (300, 5.0), "d": (300, 5.0)}
    known = expected_precision(ones, [((), 60.0), ((), 60.0)], 1000)
    shares = sorted((p.typical for p in known.pairs), reverse=True)
    assert shares[0] == pytest.approx(zipf(2) ** 2)
    assert shares[1] == pytest.approx(zipf(2) * zipf(300))
    assert any("about 1 of 6 pairs" in text for text in judge(known).good_for)


def test_a_plan_says_what_it_guesses_and_the_run_where_that_was_wrong():
    """`even` has 12 equally frequent values, which a plan takes for clear: by Zipf's law the first
    has a third of the rows. The run names it with both shares; `b` is as guessed, and is not."""
    rows = 900
    shares = {"even": np.full(12, 1 / 12), "b": zipf_shares(3)}
    schema = fastdp.Schema.from_domain({name: p.size for name, p in shares.items()})
    plan = judge(expected_precision({n: (p.size, 12.0) for n, p in shares.items()}, [], rows))
    ones = [Measurement((name,), rows * p, 12.0) for name, p in shares.items()]
    run = judged({}, schema, ones)
    assert any("guessed by Zipf's law" in text for text in plan.figures)
    (learnt,) = [text for text in run.figures if text.startswith("learnt by the run")]
    assert f"8.3% of the rows in even (guess {zipf(12):.1%})" in learnt
    assert "b (" not in learnt and not any("guessed by" in text for text in run.figures)
    assert any("even" in t and t.startswith("shares") for t in plan.good_for)
    assert any("even" in t and t.startswith("rough") for t in run.good_for)


def test_a_plan_promises_no_relative_width_of_a_mean_that_may_be_zero():
    """Temperatures from -50 to 50: a mean of 0.1 may be off by many times itself."""
    columns = {
        "warm": {"kind": "integer", "min": 100, "max": 200},
        "cold": {"kind": "integer", "min": -50, "max": 50},
    }
    schema = fastdp.Schema.from_dict({"columns": columns})
    verdict = fastdp.plan(schema, "mst", 1.0, 1e-6, rows=50_000).verdict
    assert any(text.startswith("means") and "warm" in text for text in verdict.good_for)
    assert any("means of cold: of unknown error" in text for text in verdict.not_for)


def test_a_pair_is_never_clearer_than_its_columns():
    """Two rows that agree in a pair agree in each column; noise may say otherwise."""
    rng = np.random.default_rng(2)
    schema = fastdp.Schema.from_domain({"a": 30, "b": 30})
    ones = [Measurement((n,), np.full(30, 10.0), 1.0) for n in "ab"]
    pair = Measurement(("a", "b"), rng.normal(size=900) * 40, 30.0)  # more noise than it says
    known = released_precision(Facts.of({}, schema, [*ones, pair], {}, None), {}, {})
    (seen,) = known.pairs
    assert seen.noise and seen.typical <= min(one.typical for one in known.columns)


def test_the_width_of_shares_covers_frequent_values_where_a_clip_moves_them():
    """Half of the rows have one of 100 values, and a clip left rows out: the frequent value may be
    off by more than the 99 others. The words are about the rows that have the values."""
    clipping = Clipping(lost=0.5, tilt=0.1)
    counts = np.r_[5_000.0, np.full(99, 50.0)]
    (column,) = expected_precision({"a": (100, 1.0)}, [], 20_000, clipping=clipping).columns
    down, up = clipping.divided(counts, counts.sum())
    of_frequent = 1.96 * (1 + max(down[0], up[0])) / counts.sum()
    half = half_width(counts, np.full(100, 1.0), clipping, counts.sum())
    assert half == pytest.approx(of_frequent, rel=1e-3) and half > 2 * np.median(
        1.96 * (1 + np.maximum(down, up)) / counts.sum()
    )
    assert column.half > 1.96 / 10_000


def test_where_nobody_knows_what_a_clip_left_out_the_verdict_is_about_the_rows_that_count():
    """`answer` gives no interval there, so no width holds for all rows. The same noise without a user
    column is about all rows."""
    schema = schema_with_users({"a": 4}, max_rows=40)
    ones = [Measurement(("a",), np.array([400.0, 300, 200, 100]), 5.0)]
    statement = {"unit": {"kind": "user"}, "parts": [{"clip": 3}]}
    facts = Facts.of(statement, schema, ones, {}, None)
    assert set(answer(facts, "share", "a")["basis"].to_pylist()) == {"unknown"}
    unknown = judge(released_precision(facts, statement, {}))
    assert "among the rows that count, is known" in unknown.headline
    assert any(
        text.startswith("shares of all rows: rows counted at clip 3") for text in unknown.not_for
    )
    plain = judged({}, fastdp.Schema.from_domain({"a": 4}), ones)
    assert "that count" not in plain.headline
    assert not any("all rows" in text for text in plain.not_for)


def test_an_interval_reaches_to_its_farther_end():
    numbers = pa.table(
        {
            "number": ["mean(x)"],
            "estimate": [10.0],
            "low": [10.0],
            "high": [13.0],
            "capped": pa.nulls(1, pa.float64()),
        }
    )
    facts = Facts.of({}, fastdp.Schema.from_domain({"a": 2}), [], {}, None)
    (asked,) = released_precision(facts, {}, {"numbers": numbers}).asked
    assert asked.half == pytest.approx(0.3), "not 0.15: the true mean may be 13"


AMOUNTS = """[columns]
month = {kind = "integer", min = 1, max = 12}
visits = {kind = "integer", min = 0, max = 99}
age = {kind = "integer", min = 18, max = 90}
paid = {kind = "numeric", edges = [0, 20, 40, 60, 80, 100], overflow = "clamp"}
"""


def test_plan_and_run_speak_of_the_means_of_the_same_columns(tmp_path):
    """Amounts, not months; what is cut at the bounds says so. A mean of which most values may be low
    is promised under this condition only: with 9 of 10 visits 0, the run finds it too wide."""
    (tmp_path / "s.toml").write_text(AMOUNTS)
    schema = fastdp.Schema.load(tmp_path / "s.toml")
    ask = {"schema": schema, "mechanism": "mst", "epsilon": 0.5, "delta": 1e-6}
    rows = 20_000
    planned = fastdp.plan(rows=rows, **ask).verdict
    rng = np.random.default_rng(4)
    table = {
        "month": rng.integers(1, 13, rows),
        "visits": np.where(rng.random(rows) < 0.9, 0, 1),
        "age": rng.integers(18, 91, rows),
        "paid": rng.random(rows) * 100,
    }
    found = fastdp.synthesize(pa.table(table), seed=1, **ask).verdict

    def means(verdict):
        said = [text for text in (*verdict.good_for, *verdict.not_for) if "means of" in text]
        return {name: text for text in said for name in table if name in text}

    assert set(means(planned)) == set(means(found)) == {"visits", "age", "paid"}
    for verdict in (planned, found):
        assert "counted as the nearest" in means(verdict)["paid"]
        assert means(verdict)["age"] in verdict.good_for
    assert "unless most values are the lowest" in means(planned)["visits"]
    assert means(found)["visits"] in found.not_for


def test_a_plan_says_what_the_run_has_yet_to_choose_and_to_tell():
    schema = fastdp.Schema.from_domain({n: 4 for n in "abcdef"})
    said = {
        name: " ".join(fastdp.plan(schema, name, 1.0, 1e-6, rows=9_000).verdict.lines)
        for name in ("cliquetree", "mst")
    }
    assert "about 12 of 15 pairs of columns" in said["cliquetree"]
    assert "the run will say how far the model is from them" in said["cliquetree"]
    assert "of unknown error" in said["mst"], "it releases no distances"


def test_what_was_lost_is_named_with_its_share():
    """A clip of 16 leaves out 480 of 740 rows; 10 % of the rows are `(other)`; two rare values were
    merged; one of three pairs was measured, one is too large, and the model is off by 20 % of the
    rows in another."""
    plain = fastdp.Schema.from_domain({"a": 4, "b": 2, "c": 2}, user="id").to_plain()
    plain["user"] = {"column": "id", "max_rows": 64}
    plain["columns"]["a"] = {"kind": "string", "values": ["x", "y", "z"], "null": "drop"}
    schema = fastdp.Schema.from_dict(plain)
    users = [{1: 100.0, 64: 10.0}.get(e, 0.0) for e in size_edges(64)]
    part = {"clip": 16, "clip_choice": {"users": users, "bound": 64, "sigma": 0.01}}
    statement = {"unit": {"kind": "user"}, "parts": [part]}
    statement["mechanism"] = {"name": "cliquetree", "left_out": [["b", "c"]]}
    cells = {("a",): [800.0, 60, 40, 100], ("a", "b"): [400.0, 400, 50, 50, 50, 50]}
    counted = [Measurement(clique, np.array(values), 1.0) for clique, values in cells.items()]
    tables = {
        "codes": pa.table({"column": ["a"] * 4, "code": [0, 1, 2, 3], "compressed": [0, 1, 1, 2]}),
        "distances": pa.table(
            {"columns": [["a", "c"]], "distance": [400.0], "standard_error": [1e-6]}
        ),
    }
    found = losses(Facts.of(statement, schema, counted, tables, None), statement)
    said = {topic: " ".join(text for t, text in found if t == topic) for topic, _ in found}
    assert "65%" in said["rows"] and "missing value in a" in said["rows"]
    assert (
        "a (10.0% of the rows)" in said["values"]
        and "a (2 of 4, 10.0% of the rows)" in said["values"]
    )
    noisy = [Measurement(m.clique, m.values, 90.0) for m in counted]
    told = dict(losses(Facts.of(statement, schema, noisy, tables, None), statement))
    assert "does not list" not in told["values"], (
        "100 rows of (other) do not stand out of noise of 90"
    )
    assert "1 of 3 pairs" in said["pairs"] and "20.0% (a with c)" in said["pairs"]
    assert "b with c" in said["pairs"] and "random" in said["users"]


def waits(longest):
    """A run on waiting times of about 3 hours, of which one is `longest`, and their mean."""
    rng = np.random.default_rng(2)
    hours = rng.exponential(3.0, 4000)
    hours[0] = longest
    edges = [0, 2, 4, 6, 8, 10, 12, 16]
    column = {"kind": "numeric", "dtype": "float64", "edges": [*edges, math.inf], "max": longest}
    schema = fastdp.Schema.from_dict(
        {"columns": {"hours": column, "b": {"kind": "integer", "max": 1}}}
    )
    rows = pa.table({"hours": hours, "b": rng.integers(0, 2, 4000)})
    run = fastdp.synthesize(rows, "mst", epsilon=3.0, delta=1e-6, schema=schema, seed=1)
    return run, float(hours.mean())


def test_a_mean_that_a_single_row_far_out_would_move_is_not_promised():
    """How rows fall off from bin to bin does not say where a single one lies. Of waits for a test,
    one of seven years had doubled the mean, and the verdict had promised it to 24 %."""
    run, mean = waits(61_370.0)
    (told,) = run.answer("mean(hours)").to_pylist()
    assert told["low"] <= mean <= told["high"]
    assert any("means of hours: too wide" in text for text in run.verdict.not_for)
    run, mean = waits(60.0)
    (told,) = run.answer("mean(hours)").to_pylist()
    assert told["low"] <= mean <= told["high"] and told["high"] < 1.3 * mean
    assert any("means of numbers: hours" in text for text in run.verdict.good_for)
