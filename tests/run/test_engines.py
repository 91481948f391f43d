"""Whole runs are the same to the bit whatever engine counts."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import fastdp
from fastdp.cli.app import main
from fastdp.errors import RunError, UsageError

SIZES = {"a": 4, "b": 3, "c": 2}
ADAGRID = {"mechanism": "adagrid", "outer": [["a", "b"], ["a", "c"]], "clip": "private", "threshold": 3.0}
EPSILON, DELTA = 2.0, 1e-6


def schema():
    plain = fastdp.Schema.from_domain(SIZES, user="u").to_dict()
    plain["user"]["max_rows"] = 6
    return fastdp.Schema.from_dict(plain)


def rows(count=4000):
    rng = np.random.default_rng(1)
    a = rng.integers(0, 4, count)
    names = np.array([f"{'U' if i % 2 else 'u'}{i // 2}" for i in range(1200)])
    columns = {"a": a, "b": (a + rng.integers(0, 2, count)) % 3, "c": rng.integers(0, 2, count)}
    return pa.table({**columns, "u": names[(rng.random(count) ** 2 * 1200).astype(int)]})


def run(source, **options):
    options = {"mechanism": ADAGRID, "threads": 1} | options
    return fastdp.synthesize(source, epsilon=EPSILON, delta=DELTA, seed=7, sample_seed=8, **options)


def same(one, other):
    tables = [r.data for r in (one, other)]
    assert tables[0].equals(tables[1])
    assert len(one.measurements) == len(other.measurements)
    for first, theirs in zip(one.measurements, other.measurements, strict=True):
        assert first.clique == theirs.clique and np.array_equal(first.values, theirs.values)
    assert one.model.marginal(("b", "c")).tobytes() == other.model.marginal(("b", "c")).tobytes()


@pytest.mark.parametrize("partitions", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 8, 97))])
def test_runs_are_the_same_whatever_counts(partitions):
    want = run(rows(), schema=schema())
    same(want, run(rows(), schema=schema(), engine="partitioned", partitions=partitions, threads=2))


def test_a_table_and_a_mechanism_that_asks_round_after_round():
    table = fastdp.read(rows(), schema())
    want = run(table, mechanism="aim", clip=3)
    same(want, run(table, mechanism="aim", clip=3, engine="partitioned", partitions=2))


def test_on_the_command_line_from_text(tmp_path):
    pyarrow.csv.write_csv(rows(), tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open("a") as file:
        file.write('1,1,1,"open\n')
    schema().save(tmp_path / "rows.toml")
    (tmp_path / "recipe.toml").write_text(
        'mechanism = "adagrid"\nouter = [["a", "b"], ["a", "c"]]\nclip = "private"\nthreshold = 3.0\n'
    )
    notes = []
    for name, more in (("one", []), ("two", ["--engine", "partitioned", "--partitions", "2"])):
        fixed = [*"--seed 7 --sample-seed 8 --threads 1 --quiet --out".split(), str(tmp_path / name)]
        recipe = ["-m", str(tmp_path / "recipe.toml"), "-e", str(EPSILON), "-d", str(DELTA)]
        with pytest.raises(SystemExit) as ended:
            main(["synth", str(tmp_path / "rows.csv"), *recipe, *fixed, *more])
        assert not ended.value.code
        notes.append(json.loads((tmp_path / f"{name}.private" / "reading.json").read_text()))
    same(fastdp.load_run(tmp_path / "one"), fastdp.load_run(tmp_path / "two"))
    assert notes[0] == notes[1] and notes[0]["malformed_lines"] == 1


def test_a_run_may_be_resumed_with_another_engine(tmp_path, monkeypatch):
    want = run(rows(), schema=schema())
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(
            "fastdp.run.output.Output.write", lambda *_: (_ for _ in ()).throw(RunError("the disk is full"))
        )
        with pytest.raises(RunError, match="disk is full"):
            run(rows(), schema=schema(), engine="partitioned", partitions=2, out=out)
    again = run(rows(), schema=schema(), out=out, resume=True)
    assert [m.values.tolist() for m in again.measurements] == [m.values.tolist() for m in want.measurements]


def test_a_report_reads_the_truth_again_as_one_table(tmp_path):
    source = rows(600)
    run(source, schema=schema(), engine="partitioned", partitions=2, report=True, out=tmp_path / "run")
    page = (tmp_path / "run.private" / "report.html").read_text()
    assert "<html" in page and "600" in page
    with pytest.raises(UsageError, match="a second time"):
        run(source.to_reader(), schema=schema(), engine="partitioned", report=True, out=tmp_path / "stream")
    assert not (tmp_path / "stream.private").exists()
