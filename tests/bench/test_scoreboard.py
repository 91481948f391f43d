"""The scoreboard: measures against slow twins, tables as they are described, runs that resume,
peers with a limit, and a page whose losses are those of the store."""

import json
import math
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.scoreboard import (
    __main__ as board,
    ablations,
    compare,
    contestants,
    generated,
    measures,
    page,
    peers,
    reasons,
    runs,
    store,
    tables as boards,
)
from bench.scoreboard.__main__ import chosen, main, parser, requests, wanted
from bench.scoreboard.tables import Benchmark, Task
from fastdp.errors import UsageError
from tests.plugins import test_plugins

FAKE = """
import json, sys
import numpy as np
name, source, target, epsilon, delta, seed = sys.argv[1:]
with np.load(source) as arrays:
    sizes = json.loads(str(arrays["sizes"]))
    rows = {f"x_{a}": arrays[f"x_{a}"] for a in sizes}
if name == "fake slow":
    while True:
        pass
if name == "fake broken":
    raise ValueError(f"no {delta} today")
np.savez(target, seconds=0.5, used=0.25, held_mb=0.0, **rows)
"""


def small_task(seed: int = 0, rows: int = 300, group: str | None = None) -> Task:
    rng = np.random.default_rng(seed)
    sizes = {"a": 3, "b": 5, "c": 2, "d": 4}
    both = []
    for count in (rows, 80):
        codes = {name: rng.integers(0, n, count) for name, n in sizes.items()}
        codes["b"] = np.where(rng.random(count) < 0.6, codes["a"], codes["b"])
        both.append(codes)
    return Task(
        "small",
        sizes=sizes,
        codes=both[0],
        held_out=both[1],
        user=None,
        ordered=("a", "b"),
        target="c",
        group=group,
    )


def others(task: Task, seed: int, rows: int = 200) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, n, rows) for name, n in task.sizes.items()}


def frames(task: Task, made: dict[str, np.ndarray]) -> tuple[pd.DataFrame, pd.DataFrame]:
    return pd.DataFrame(task.codes), pd.DataFrame(made)


def shares(frame: pd.DataFrame, columns: list[str]) -> pd.Series:
    """Counts over counted rows of distinct names; a column may be drawn twice."""
    distinct = list(dict.fromkeys(columns))
    return frame.groupby(distinct).size() / len(frame)


def test_sdmetrics_is_asked_in_its_own_environment(tmp_path, monkeypatch):
    """The program gets both tables and the columns with an order; its score is the measure. Where
    there is neither the package nor the environment there is no measure."""
    monkeypatch.setattr(measures, "quality_is_here", lambda: False)
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    task = small_task()
    made = others(task, 1)
    assert measures.sdmetrics_quality(task, made) == {}

    fake = f"""#!{sys.executable}
import json, sys
import numpy as np
with np.load(sys.argv[2]) as arrays:
    assert json.loads(str(arrays["ordered"])) == ["a", "b"]
    print(len(arrays["t_a"]) / len(arrays["s_a"]))
"""
    peers.python("sdmetrics").parent.mkdir(parents=True)
    peers.python("sdmetrics").write_text(fake)
    peers.python("sdmetrics").chmod(0o755)
    (tmp_path / "sdmetrics.version").write_text("0.32.0")
    assert measures.sdmetrics_quality(task, made) == {"sdmetrics": 300 / 200}


@pytest.mark.parametrize("group", [None, "d"])
def test_k_marginal_is_sdnists(group):
    """As SDNist's class does it, by frames: (2 - mean L1) 500 of all pairs, each with the group."""
    task = small_task(group=group)
    made = others(task, 1)
    truth, synthetic = frames(task, made)
    if group:
        synthetic = synthetic[synthetic[group] != 3]  # a group that only the truth has
        made = {name: synthetic[name].to_numpy() for name in task.sizes}
    gaps = []
    for pair in combinations([name for name in task.sizes if name != group], 2):
        columns = [*pair, group] if group else list(pair)
        gap = shares(truth, columns).subtract(shares(synthetic, columns), fill_value=0)
        gaps.append(gap.abs().sum())
    assert measures.k_marginal(task, made) == pytest.approx((2 - np.mean(gaps)) * 500, rel=1e-9)


@pytest.mark.parametrize("many", [1, 100])
def test_errors_are_those_of_frames(many, monkeypatch):
    """Pairs, triples, range queries, Wasserstein and correlations beside their definitions."""
    from scipy.stats import wasserstein_distance

    monkeypatch.setattr(measures, "QUERIES", 20)
    monkeypatch.setattr(measures, "MANY_QUERIES", many)  # combinations counted, rows looked up
    task = small_task()
    made = others(task, 2)
    truth, synthetic = frames(task, made)
    found = measures.score(task, made, models=False, quality=False)
    variation = {
        k: [
            shares(truth, list(c)).subtract(shares(synthetic, list(c)), fill_value=0).abs().sum()
            / 2
            for c in combinations(task.sizes, k)
        ]
        for k in (2, 3)
    }
    assert found["pairs"] == pytest.approx(np.mean(variation[2]))
    assert found["worst_pair"] == pytest.approx(max(variation[2]))
    assert found["triples"] == pytest.approx(np.mean(variation[3]))
    gaps = []
    for query in measures.queries(task):
        assert len(query) == 3
        hits = []
        for frame in (truth, synthetic):
            inside = [
                all(asked[row[name]] for name, asked in query.items())
                for row in frame.to_dict("records")
            ]
            hits.append(np.mean(inside))
        gaps.append(abs(hits[0] - hits[1]))
    assert found["ranges"] == pytest.approx(np.mean(gaps))
    distances = []
    for name, size in task.sizes.items():
        if name in task.ordered:
            scale = size - 1
            distances.append(wasserstein_distance(truth[name] / scale, synthetic[name] / scale))
        else:
            distances.append(
                shares(truth, [name]).subtract(shares(synthetic, [name]), fill_value=0).abs().sum()
                / 2
            )
    assert found["wasserstein"] == pytest.approx(np.mean(distances))
    both = [frame[["a", "b"]].corr().iloc[0, 1] for frame in (truth, synthetic)]
    assert found["correlation"] == pytest.approx(abs(both[0] - both[1]))


def test_range_queries_ask_intervals_of_ordered_columns_only():
    task = small_task()
    for query in measures.queries(task)[:200]:
        for name, asked in query.items():
            at = np.flatnonzero(asked)
            if name in task.ordered:
                assert at[-1] - at[0] + 1 == len(at)
            else:
                assert len(at) == max(1, task.sizes[name] // 2)


@pytest.mark.slow
def test_models_are_tested_on_rows_that_nobody_saw():
    """A target that is a fair coin cannot be predicted, even from the very rows of the table; one
    that follows from a column can. A planted leak (held-out rows among those trained on) would
    give a forest an AUC far above a half."""
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(3)
    sizes = {"x": 6, "y": 30, "coin": 2, "copy": 2}

    def rows(count):
        out = {name: rng.integers(0, n, count) for name, n in sizes.items()}
        return out | {"copy": out["x"] % 2}

    seen = rows(600)
    blind = Task(
        "t",
        sizes=sizes,
        codes=seen,
        held_out=rows(600),
        user=None,
        ordered=(),
        target="coin",
        group=None,
    )
    plain = measures.efficiency(blind, seen)
    assert set(plain) == set(measures.MODELS)
    assert all(abs(value - 0.5) < 0.12 for value in plain.values())  # 5 standard errors
    clear = Task(
        "t",
        sizes=sizes,
        codes=seen,
        held_out=rows(600),
        user=None,
        ordered=(),
        target="copy",
        group=None,
    )
    assert measures.efficiency(clear, seen)["auc_forest"] > 0.95
    assert measures.efficiency(clear, seen | {"copy": seen["copy"] * 0}) == dict.fromkeys(
        measures.MODELS, 0.5
    )


def test_the_code_that_halves():
    assert measures.halving_code(np.array([0, 0, 0, 1]), 2) == 1
    assert measures.halving_code(np.array([0, 1, 2, 3, 3, 3]), 4) == 3


def test_gaussians_have_the_correlation_and_open_ends():
    made = generated.gaussian(20_000, 3, 0.8)
    first, second = made["g0"][1], made["g1"][1]
    outside = np.mean(first == 0) + np.mean(first == 7)
    assert abs(outside - 2 * 0.0668) < 0.01  # P(|z| > 1.5), five standard errors
    assert 0.7 < np.corrcoef(first, second)[0, 1] < 0.8  # bins take a little of 0.8


@pytest.mark.parametrize("inputs", [2, 5])
def test_exclusive_or_needs_all_of_its_columns(inputs):
    made = generated.exclusive_or(10_000, inputs)
    bits = np.stack([made[f"x{i}"][1] for i in range(inputs)])
    target = made["target"][1]
    assert abs(np.mean(bits.sum(0) % 2 == target) - 0.95) < 0.011  # five standard errors
    part = np.mean(bits[1:].sum(0) % 2 == target)
    assert abs(part - 0.5) < 0.025


def test_the_causal_model_has_its_independences():
    """Ends of the chain depend, parents of a collider do not; given the middle, ends do not."""
    made = {name: codes for name, (_, codes) in generated.causal(20_000).items()}
    assert len(made) == 10

    def dependence(x, y):
        table = pd.crosstab(x, y, normalize=True).to_numpy()
        return np.abs(table - np.outer(table.sum(1), table.sum(0))).sum() / 2

    assert dependence(made["chain1"], made["chain2"]) > 0.05
    assert dependence(made["left"], made["right"]) > 0.02
    assert dependence(made["one"], made["other"]) < 0.02
    frame = pd.DataFrame(made)
    largest = frame[frame["root"] == frame["root"].mode()[0]]
    assert dependence(largest["left"], largest["right"]) < 0.02


def test_rows_are_held_out_by_user():
    user = np.repeat(np.arange(50), 4)
    benchmark = Benchmark("t", lambda: ({"a": (200, np.arange(200))}, user), "")
    task = boards.task(benchmark)
    assert len(task.held_out["a"]) == 40 and len(np.unique(task.user)) == 40
    assert not set(task.held_out["a"] // 4) & set(task.codes["a"] // 4)
    one_each = task.one_row_each(0)
    assert one_each.user is None and one_each.rows == 40
    assert len(set(one_each.codes["a"] // 4)) == 40
    again = runs.bootstrap(task, np.random.default_rng(0))["a"]
    assert all(np.sum(again // 4 == u) % 4 == 0 for u in range(50))  # users with all rows


@pytest.fixture
def small_job(tmp_path, monkeypatch):
    """A CSV file with its domain, a fake peer, and a store of its own."""
    rng = np.random.default_rng(0)
    codes = {"x": rng.integers(0, 3, 400), "y": rng.integers(0, 2, 400)}
    codes["z"] = codes["x"] % 2
    pd.DataFrame(codes).to_csv(tmp_path / "mine.csv", index=False)
    (tmp_path / "mine.json").write_text(json.dumps({"x": 3, "y": 2, "z": 2}))
    (tmp_path / "fake.py").write_text(FAKE)
    monkeypatch.setattr(boards, "COPIES", tmp_path / "copies")
    command = f"{sys.executable} {tmp_path / 'fake.py'}"
    words = ["--csv", str(tmp_path / "mine.csv"), "--domain", str(tmp_path / "mine.json")]
    words += ["--target", "z", "--epsilon", "1", "--store", str(tmp_path / "store"), "--cores", "2"]
    words += ["--no-quality", "--no-models", "--limit", "1"]
    return words, [f"{name}={command}" for name in ("fake", "fake slow", "fake broken")]


@pytest.mark.slow
def test_a_job_on_a_csv_with_a_peer_that_is_resumed(small_job, tmp_path, capsys):
    """One job runs the default, a floor and three fake peers; the second finds all of it stored
    but a new seed, the third what a crash cut off; the page lists the peer that copies the table as
    a winner, and the two that gave no rows with their reasons."""
    words, given = small_job
    peers_given = [word for peer in given for word in ("--peer", peer)]
    main([*words, *peers_given, "--seeds", "1", "--mechanisms", "cliquetree", "uniform"])
    assert "[5/5]" in capsys.readouterr().err
    kept = store.Store(tmp_path / "store")
    found = {r["mechanism"]: r for r in kept.records()}
    assert set(found) == {"cliquetree", "uniform", "fake", "fake slow", "fake broken"}
    assert found["fake"]["measures"]["pairs"] == 0.0 and found["fake"]["processor"] == 0.25
    assert found["fake"]["peak_mb"] > 1
    slow = found["fake slow"]["failed"]  # on a busy machine the clock ends it
    assert slow in ("not done in 1 s of the processor", "not done in 3 s, 1 s of the processor")
    assert found["fake broken"]["failed"] == "ValueError: no 1e-09 today"
    assert found["cliquetree"]["version"] == contestants.VERSION
    assert found["uniform"]["epsilon"] is None

    again = [*words, "--peer", given[0], "--seeds", "2", "--mechanisms", "uniform"]
    main(again)
    assert "2 runs" in capsys.readouterr().err  # the second seed of both
    lines = kept.here.read_text()
    kept.here.write_text(lines[:-20])  # a crash while the last line was written
    main(again)
    assert "1 runs" in capsys.readouterr().err

    text = (tmp_path / "store" / "scoreboard.md").read_text()
    assert text.index("Where the default loses") < text.index("## Every table")
    assert "| mine | fake | k-marginal " in text and reasons.UNEXPLAINED.title in text
    assert f"| fake slow | mine | {slow} |" in text
    assert (tmp_path / "store" / "scoreboard.svg").read_text().startswith("<svg")
    main(["--check", "--store", str(tmp_path / "store")])
    main(["--rows", str(tmp_path / "rows.csv"), "--store", str(tmp_path / "store")])
    rows = pd.read_csv(tmp_path / "rows.csv")
    both = rows[(rows.mechanism == "uniform") & (rows.measure == "pairs")].iloc[0]
    assert both.seeds == 2 and both.standard_error > 0


@pytest.mark.slow
def test_a_job_ends_when_it_said(small_job, tmp_path, capsys, monkeypatch):
    """A run that would go on for minutes is ended and not stored; the same command goes on."""
    words, given = small_job
    monkeypatch.setattr(board, "GRACE_MINUTES", 0.05)
    limits = ["--limit", "600", "--minutes", "0.05"]
    main([*words, *limits, "--peer", given[1], "--seeds", "1", "--mechanisms", "fake slow"])
    assert "1 runs are left" in capsys.readouterr().err
    assert store.Store(tmp_path / "store").records() == []


def test_a_schema_is_a_domain_file_too(tmp_path):
    """A user's column, bins and values are the schema's."""
    (tmp_path / "t.csv").write_text("who,kind,amount\n1,a,3\n1,b,30\n2,a,7\n3,b,1\n")
    (tmp_path / "t.toml").write_text(
        '[user]\ncolumn = "who"\nmax_rows = 10\n'
        '[columns.kind]\nkind = "string"\nvalues = ["a", "b"]\noverflow = "drop"\nnull = "drop"\n'
        '[columns.amount]\nkind = "numeric"\nedges = [0, 5, 50]\noverflow = "drop"\nnull = "drop"\n'
    )
    columns, user = boards.from_csv(tmp_path / "t.csv", tmp_path / "t.toml", None, ()).make()
    assert {name: n for name, (n, _) in columns.items()} == {"kind": 2, "amount": 2}
    assert list(columns["amount"][1]) == [0, 1, 1, 0]
    assert len(np.unique(user)) == 3


installed = test_plugins.installed
"""The fixture that installs examples/plugin."""


def test_plug_ins_take_part_by_name(installed):
    star = contestants.named("star")
    assert star.kind == "plug-in" and star.version == "fastdp-example 1.0"
    made = runs.by_fastdp(small_task(), "star", 10.0, 1)
    assert set(made.codes) == {"a", "b", "c", "d"}
    with pytest.raises(UsageError, match="there is no mechanism 'nobody'"):
        contestants.named("nobody")


@pytest.mark.slow  # a real installer looks for a package
def test_what_cannot_be_installed_is_kept_with_its_reason(tmp_path, monkeypatch):
    nowhere = peers.Library("fastdp-no-such", ("--no-index", "fastdp-no-such"), ())
    monkeypatch.setattr(peers, "LIBRARIES", {"nowhere": nowhere})
    monkeypatch.setattr(peers, "FOLDER", tmp_path / "peers")
    monkeypatch.setattr(peers, "python", lambda library: Path(sys.executable))
    found = peers.install(["nowhere"], tmp_path / "peers.json")
    assert found["nowhere"].startswith("not installed: ERROR: No matching distribution")
    assert json.loads((tmp_path / "peers.json").read_text()) == found
    assert peers.installed() == []


def cell(mechanism: str, values, kind: str = "fastdp", measure: str = "pairs") -> compare.Cell:
    epsilon = None if mechanism == "uniform" else 1.0
    return compare.Cell("t", measure, mechanism, kind, epsilon, tuple(values))


def test_losses_are_those_beyond_chance():
    """Welch's interval beside scipy's; a single further value beside seeds; which way is better."""
    from scipy import stats

    ours = cell("cliquetree", [0.30, 0.31, 0.29, 0.30, 0.305])
    rival = cell("mst", [0.28, 0.285, 0.275, 0.28, 0.27])
    interval = stats.ttest_ind(ours.values, rival.values, equal_var=False).confidence_interval()
    half = (interval.high - interval.low) / 2
    assert compare.half_width(ours, rival) == pytest.approx(half)
    even = cell("aim", [0.296, 0.31, 0.295, 0.31, 0.285])
    floor = cell("uniform", [0.1], "floor")
    ceiling = cell("bootstrap", [0.0, 0.0], "ceiling")
    lost = compare.losses(compare.comparisons([ours, rival, even, floor, ceiling]))
    assert {one.rival.mechanism for one in lost} == {"mst", "uniform"}
    one_value = 2.776 * ours.deviation * math.sqrt(1 + 1 / 5)
    assert compare.half_width(ours, floor) == pytest.approx(one_value, rel=1e-3)
    better = [cell("cliquetree", [0.9, 0.91], measure="auc_forest")]
    better.append(cell("mst", [0.5, 0.51], measure="auc_forest"))
    assert compare.losses(compare.comparisons(better)) == []


def test_times_are_of_one_machine_and_errors_of_the_last_run():
    """A run that was made twice counts once; seconds come from the machine with most mechanisms;
    a seed of an older version is left out, although it was not run again."""

    def record(machine, mechanism, processor, pairs, date, seed=1, version="2"):
        about = {
            "table": "t",
            "mechanism": mechanism,
            "epsilon": 1.0,
            "seed": seed,
            "machine": machine,
            "processor": processor,
            "peak_mb": 1,
            "date": date,
        }
        return about | {"kind": "fastdp", "version": version, "measures": {"pairs": pairs}}

    records = [
        record("one", "cliquetree", 1.0, 0.2, "2026-02-02T00:00"),
        record("other", "cliquetree", 9.0, 0.3, "2026-01-01T00:00"),
        record("other", "mst", 3.0, 0.4, "2026-01-01T00:00"),
        record("other", "mst", 5.0, 0.9, "2025-12-31T00:00", seed=2, version="1"),
    ]
    far = record("third", "mbi MST", 80.0, 0.4, "2026-01-01T00:00")
    assert compare.elsewhere([*records, far]) == [far]
    text = page.times_section(compare.of_last_version([*records, far]))
    assert "| t | 9 s, 1 | 3 s, 1 | 80 s, 1\\* |" in text
    found = {(c.mechanism, c.measure): c.values for c in compare.cells(records)}
    assert found["cliquetree", "processor"] == (9.0,) and found["mst", "processor"] == (3.0,)
    assert found["cliquetree", "pairs"] == (0.2,) and found["mst", "pairs"] == (0.4,)


def test_a_version_is_of_the_sources(tmp_path):
    """A changed line gives another version, in Python and in a kernel; what a build leaves behind
    does not."""
    code = tmp_path / "fastdp"
    kernels = tmp_path / "csrc"
    for folder in (code, kernels):
        folder.mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2"\n')
    (code / "rule.py").write_text("share = 3\n")
    (code / "loop.pyx").write_text("cdef int n\n")
    (kernels / "loop.c").write_text("int n = 3;\n")
    before = contestants.version_of(tmp_path)
    (code / "loop.c").write_text("/* made from loop.pyx */\n")
    (code / "_shared.c").write_text("/* made by the compiler for all modules */\n")
    (code / "loop.so").write_bytes(b"1")
    assert contestants.version_of(tmp_path) == before and before.startswith("1.2+")
    (code / "rule.py").write_text("share = 2\n")
    changed = contestants.version_of(tmp_path)
    assert changed != before
    (kernels / "loop.c").write_text("int n = 2;\n")
    assert contestants.version_of(tmp_path) not in (before, changed)


@pytest.fixture(scope="module")
def case():
    """A table in which b is a and c is independent of both; in the rows held out all are independent."""
    rng = np.random.default_rng(5)
    sizes = {"a": 6, "b": 6, "c": 6}
    codes = {name: rng.integers(0, 6, 4_000) for name in sizes}
    codes["b"] = codes["a"]
    unseen = {name: rng.integers(0, 6, 1_000) for name in sizes}
    task = Task(
        "t",
        sizes=sizes,
        codes=codes,
        held_out=unseen,
        user=None,
        ordered=tuple(sizes),
        target=None,
        group=None,
    )
    return ablations.Case(task, 3.0, 1)


def test_a_contestant_of_an_ablation_runs_once(case):
    assert case.made("cliquetree") is case.made("cliquetree")


def test_independent_columns_have_less_noise_for_they_have_all_of_the_budget(case):
    own = case.made("cliquetree").run
    floor = case.made("independent").run
    assert ablations.noise_ratio(own, floor, 1) < 1
    assert ablations.noise_ratio(own, own, 2) == 1


@pytest.mark.slow
def test_rows_drawn_at_random_are_less_balanced(case):
    own = case.made("cliquetree").rows
    drawn = ablations.redrawn(case, "independent", "association").own
    assert measures.rows_of(drawn) == measures.rows_of(own)
    assert ablations.error(case.task, drawn, "pairs") > ablations.error(case.task, own, "pairs")


def test_shuffled_columns_keep_their_counts_and_lose_their_dependence(case):
    own = case.made("cliquetree").rows
    shuffled = ablations.shuffled(case, "uniform", "pairs").own
    for name in case.task.sizes:
        assert np.array_equal(np.bincount(shuffled[name]), np.bincount(own[name]))
    assert ablations.error(case.task, own, "pairs") < 0.2
    assert ablations.error(case.task, shuffled, "pairs") > 0.2


def test_independent_columns_can_be_given_the_noise_of_the_default(case):
    plain = case.made("independent").rows
    noisier = ablations.same_noise(case, "independent", "wasserstein").other
    assert not np.array_equal(noisier["a"], plain["a"])
    for rows in (noisier, plain):
        assert ablations.error(case.task, rows, "wasserstein") < 0.1


def test_columns_can_be_drawn_as_they_were_measured(case):
    plain = case.made("independent").rows
    noisy = ablations.as_measured(case, "independent", "wasserstein").other
    assert measures.rows_of(noisy) == measures.rows_of(plain)
    assert ablations.error(case.task, noisy, "wasserstein") < 0.1


def test_single_columns_can_be_drawn_without_what_pairs_say_of_them(case):
    """Pairs are left out, so every column is by itself."""
    run = case.made("mst").run
    assert len(run.measurements) > len(case.task.sizes)
    assert ablations.noise_ratio(case.made("cliquetree").run, run, 1) != 1
    alone = ablations.measured_alone(case, "mst", "wasserstein").other
    assert ablations.error(case.task, alone, "wasserstein") < 0.1
    assert ablations.error(case.task, alone, "pairs") > 0.2


@pytest.mark.slow
def test_many_rows_take_away_what_chance_adds(case):
    both = ablations.many_rows(case, "mst", "pairs")
    for name, rows in (("cliquetree", both.own), ("mst", both.other)):
        assert measures.rows_of(rows) == ablations.MORE * measures.rows_of(case.made(name).rows)
        assert ablations.error(case.task, rows, "pairs") < 0.1


def test_rows_held_out_are_the_truth_where_they_are_asked_for(case):
    """a and b differ there."""
    beside = ablations.held_out(case, "independent", "pairs")
    assert ablations.error(beside.task, beside.own, "pairs") > 0.2


def test_the_nearest_shares():
    """Beside a search over all shares of three values in hundredths; shares stay as they are."""
    assert ablations.on_simplex(np.array([0.2, 0.5, 0.3])) == pytest.approx([0.2, 0.5, 0.3])
    values = np.array([1.1, -0.4, 0.1])
    grid = [(i / 100, j / 100, (100 - i - j) / 100) for i in range(101) for j in range(101 - i)]
    nearest = min(grid, key=lambda shares: np.square(values - shares).sum())
    assert ablations.on_simplex(values) == pytest.approx(nearest, abs=0.01)


def test_the_page_says_what_is_left_of_a_loss(tmp_path, monkeypatch):
    """A reason stands once, over its losses; beside them what the rival still has without it. What
    an ablation said of another reason is dropped."""
    single = reasons.Reason("Single", "budget", measure="wasserstein", ablation="same noise")
    monkeypatch.setattr(reasons, "REASONS", (single,))
    found = [
        cell("cliquetree", [0.5, 0.51], measure="wasserstein"),
        cell("independent", [0.1, 0.11], "floor", "wasserstein"),
        cell("mst", [0.2, 0.21], "fastdp", "wasserstein"),
        cell("cliquetree", [0.4, 0.41]),
        cell("mst", [0.2, 0.21]),
    ]
    compared = compare.comparisons(found)
    line = {"table": "t", "epsilon": 1.0, "measure": "wasserstein", "rival": "independent"}
    line |= {"ablation": "same noise", "seed": 1000, "default": 0.5, "other": 0.53}
    text = page.losses_section(compared, [line, line | {"ablation": "redrawn", "other": 0.2}])
    assert text.count("### Single") == text.count("budget.") == 1
    assert "| t | independent | 1: **0.4** ± 0.0304 (= 0.505) | 1: -0.03 |".replace(
        "Wasserstein ", ""
    ) in text.replace("Wasserstein ", "")
    assert text.index("### Not explained yet") < text.index("### Single")
    assert "| Wasserstein | 2 | 0 | 2 | 2 | 1, 1, 0 |" in text


def test_losses_are_judged_together():
    """Benjamini and Hochberg's rule beside scipy's, on p-values of Welch's test."""
    from scipy import stats

    rng = np.random.default_rng(8)
    found = [cell("cliquetree", rng.normal(0.5, 0.1, 5))]
    found += [cell(f"m{i}", rng.normal(0.5 - 0.02 * i, 0.1, 5)) for i in range(20)]
    compared = compare.comparisons(found)
    plain = [
        stats.ttest_ind(one.ours.values, one.rival.values, equal_var=False, alternative="greater")
        for one in compared
    ]
    assert [compare.by_chance(one) for one in compared] == pytest.approx([p.pvalue for p in plain])
    adjusted = stats.false_discovery_control([p.pvalue for p in plain])
    together = compare.together(compared)
    count = sum(compare.by_chance(one) <= together for one in compared)
    assert 0 < count == np.sum(adjusted <= 0.05) < 20


def test_measures_of_two_runs_are_united():
    """A run that was scored again by one further measure keeps the others; one of another table
    does not."""

    def record(date, digest, **values):
        about = {
            "table": "t",
            "mechanism": "cliquetree",
            "epsilon": 1.0,
            "seed": 1,
            "digest": digest,
        }
        return about | {"version": "2", "date": date, "measures": values}

    first = record("2026-01-01", "x", pairs=0.1, auc_forest=0.9)
    (found,) = compare.latest([first, record("2026-01-02", "x", pairs=0.1, sdmetrics=0.8)])
    assert found["measures"] == {"pairs": 0.1, "auc_forest": 0.9, "sdmetrics": 0.8}
    (found,) = compare.latest([first, record("2026-01-02", "y", pairs=0.2)])
    assert found["measures"] == {"pairs": 0.2}


def test_a_job_that_is_cut_short_has_compared_everybody():
    """The first seed of every table and mechanism comes before the second; peers come last; what
    does not depend on epsilon runs once."""
    options = parser().parse_args(["--seeds", "2", "--epsilon", "1", "3"])
    tables = [boards.BENCHMARKS["xor2"], boards.BENCHMARKS["causal"]]
    who = [contestants.named(name) for name in ("uniform", "split", "cliquetree")]
    who.append(contestants.named("peer", {"peer": ("python",)}))
    found = [(r.contestant.name, r.seed, r.epsilon) for r in requests(options, tables, who)]
    own = [one for one in found if one[0] != "peer"]
    assert found == own + found[len(own) :] and len(found) - len(own) == 8
    assert [seed for _, seed, _ in own] == sorted(seed for _, seed, _ in own)
    assert found.count(("uniform", 1000, None)) == 2 and found.count(("split", 1001, None)) == 0
    assert found.count(("cliquetree", 1001, 3.0)) == 2


def test_what_failed_is_tried_again_with_more_time():
    request = runs.Request("t", contestants.named("uniform"), None, 1, limit=100.0)
    assert wanted(request, None) and not wanted(request, {"rows": 3})
    assert wanted(request, {"failed": "late", "limit": 60.0})
    assert not wanted(request, {"failed": "late", "limit": 100.0})


def test_tables_whose_source_is_not_here_are_left_out_with_a_reason(tmp_path, monkeypatch, capsys):
    """Unless a copy was made elsewhere, which is the same table to the bit."""
    monkeypatch.setattr(boards, "SHARED", tmp_path / "absent")
    monkeypatch.setattr(boards, "COPIES", tmp_path / "copies")
    parse = parser()
    options = parse.parse_args(["--tables", "adult", "xor2"])
    assert [one.name for one in chosen(options, parse)] == ["xor2"]
    assert "adult: left out, its data is not at ../shared/data/adult" in capsys.readouterr().err
    whole = boards.prepare(boards.BENCHMARKS["xor2"])
    (tmp_path / "copies" / "xor2.npz").rename(tmp_path / "copies" / "adult.npz")
    assert [one.name for one in chosen(options, parse)] == ["adult", "xor2"]
    assert store.digest(boards.prepare(boards.BENCHMARKS["adult"])) == store.digest(whole)


def test_sdmetrics_has_a_table_where_the_default_has_a_score():
    """The default first; a rival on a table without the default is not shown."""
    cells = [
        compare.Cell("xor3", "sdmetrics", name, "fastdp", 1.0, (value,))
        for name, value in (("aim", 0.5), ("cliquetree", 0.75))
    ]
    cells.append(compare.Cell("two", "sdmetrics", "aim", "fastdp", 1.0, (0.4,)))
    (text,) = page.quality_section(cells)
    assert "| table | cliquetree | aim |" in text and "| xor3 | 0.75 | 0.5 |" in text
    assert "two" not in text and page.quality_section(cells[:1]) == []
