"""A package outside adds a mechanism, a metric and a source; nothing of it is imported unless it is
named, and a statement says that it took part."""

import json
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp._util.registries import Registry
from fastdp.cli import app
from fastdp.errors import UsageError
from fastdp.mechanisms.registry import MECHANISMS
from fastdp.metrics.metric import METRICS
from fastdp.tables.sources.source import SOURCES

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
SCHEMA = fastdp.Schema.from_dict(
    {
        "user": {"column": "who", "max_rows": 2},
        "columns": {
            "a": {
                "kind": "categorical",
                "values": ["x", "y", "z"],
                "overflow": "drop",
                "null": "drop",
            },
            "b": {"kind": "integer", "min": 0, "max": 3, "overflow": "drop", "null": "drop"},
        },
    }
)
REGISTRIES = {"mechanisms": MECHANISMS, "metrics": METRICS, "sources": SOURCES}


def install(folder: Path, name="fastdp-example", version="1.0") -> Path:
    """What `pip install` leaves behind: the package, and a .dist-info with its entry points."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    place = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in points.items())]
    (place / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def installed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.syspath_prepend(str(install(tmp_path / "site")))
    yield tmp_path
    for registry in REGISTRIES.values():
        registry._outside.clear()
        registry._packages.clear()
    for module in [name for name in sys.modules if name.startswith("fastdp_example")]:
        del sys.modules[module]


def rows(count=400):
    people = pa.array([i // 2 for i in range(count)])
    return pa.table(
        {
            "who": people,
            "a": pa.array(["xyz"[i % 3] for i in range(count)]),
            "b": pa.array([i % 3 for i in range(count)]),
        }
    )


def archive(folder: Path) -> Path:
    table = rows()
    for i in range(2):
        pq.write_table(table.slice(200 * i, 200), folder / f"part{i}.parquet")
    with zipfile.ZipFile(folder / "rows.zip", "w") as packed:
        for i in range(2):
            packed.write(folder / f"part{i}.parquet", f"part{i}.parquet")
    return folder / "rows.zip"


def test_a_run_with_a_mechanism_a_source_and_a_metric_from_outside(installed):
    """The rows of the archive are those of the table: with the same seed both give the same
    answers."""
    source = fastdp.source("zipped", archive(installed))
    asked = {"epsilon": 3.0, "delta": 1e-6, "schema": SCHEMA, "seed": 1, "sample_seed": 1}
    run = fastdp.synthesize(source, "star", **asked, out=installed / "run")
    same = fastdp.synthesize(rows(), {"mechanism": "star", "centre": "a"}, **asked)
    assert run.data.equals(same.data) and run.data.num_rows > 100
    assert [m.clique for m in run.measurements if m.label == "marginals"] == [("a", "b")]

    statement = json.loads((installed / "run" / "privacy.json").read_text("utf-8"))
    named = [(p["kind"], p["name"], p["package"]) for p in statement["mechanism"]["plugins"]]
    assert named == [
        ("mechanism", "star", "fastdp-example"),
        ("source", "zipped", "fastdp-example"),
    ]
    assert any("code from outside" in note for note in statement["notes"])
    fastdp.verify(installed / "run")

    scores = fastdp.evaluate(rows(), run.data, metrics=["tv1", "mode"])
    assert 0 <= scores["mode"] <= 1
    assert [p["name"] for p in scores["plugins"]] == ["mode"]
    lines = fastdp.plan(SCHEMA, "star", epsilon=1.0, delta=1e-6, rows=400).lines
    assert [line.clique for line in lines] == [("a", "b")]


def test_the_command_line_hands_its_data_to_a_source_by_name(installed, capsys):
    """The run and its scores are those of the same calls in Python; without the name, the archive
    is no table."""
    packed = str(archive(installed))
    schema = installed / "schema.toml"
    SCHEMA.save(schema)
    asked = ["-s", str(schema), "-e", "3", "-d", "1e-6", "-m", "mst", "--seed", "1", "--quiet"]
    out = installed / "named"
    app.main(
        ["synth", packed, "--source", "zipped", *asked, "--sample-seed", "1", "--out", str(out)]
    )
    options = {"epsilon": 3.0, "delta": 1e-6, "schema": SCHEMA, "seed": 1, "sample_seed": 1}
    same = fastdp.synthesize(rows(), "mst", **options)
    assert pq.read_table(out / "synthetic.parquet").to_pydict() == same.data.to_pydict()
    statement = json.loads((out / "privacy.json").read_text("utf-8"))
    assert [p["name"] for p in statement["mechanism"]["plugins"]] == ["zipped"]
    app.main(["check", packed, "--source", "zipped", "-s", str(schema), "--json"])
    capsys.readouterr()
    app.main(["evaluate", packed, str(out), "--source", "zipped", "--metric", "tv1", "--json"])
    scores = fastdp.evaluate(rows(), out, metrics=["tv1"])
    assert json.loads(capsys.readouterr().out)["tv1"] == scores["tv1"]
    with pytest.raises(SystemExit):
        app.main(["synth", packed, *asked, "--out", str(installed / "unnamed")])


def packed_households(folder: Path) -> list[str]:
    """Linked tables, each in an archive of its own, as NAME=FILE."""
    given = []
    for name, table in fastdp.simulate.households(300, seed=3).items():
        pq.write_table(table, folder / f"{name}.parquet")
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as packed:
            packed.write(folder / f"{name}.parquet", f"{name}.parquet")
        given.append(f"{name}={folder / name}.zip")
    return given


def test_linked_tables_are_read_by_a_source_of_that_name(installed, capsys):
    """Run and scores are those of the plain files; a page without the truth reads no source."""
    given = packed_households(installed)
    out = installed / "run"
    asked = ["-m", "households", "-e", "4", "-d", "1e-6", "--seed", "1", "--sample-seed", "1"]
    app.main(["synth", *given, "--source", "zipped", *asked, "--quiet", "--out", str(out)])
    files = {item.split("=")[0]: item.split("=")[1] for item in given}
    plain = {name: file.replace(".zip", ".parquet") for name, file in files.items()}
    options = {"epsilon": 4.0, "delta": 1e-6, "seed": 1, "sample_seed": 1}
    same = fastdp.synthesize(plain, "households", **options)
    made = fastdp.load_run(out)
    assert {n: t.to_pydict() for n, t in made.data.items()} == {
        n: t.to_pydict() for n, t in same.data.items()
    }
    capsys.readouterr()
    asked = ["--metric", "tv1", "--json"]
    app.main(["evaluate", ",".join(given), str(out), "--source", "zipped", *asked])
    scores = json.loads(capsys.readouterr().out)["tables"]
    truth = fastdp.evaluate(plain, out, metrics=["tv1"])["tables"]
    assert {n: s["tv1"] for n, s in scores.items()} == {n: s["tv1"] for n, s in truth.items()}
    page = str(installed / "page.html")
    with pytest.raises(SystemExit):
        app.main(["evaluate", str(out), "--without-truth", "--source", "zipped", "--out", page])
    assert "nothing for --source" in capsys.readouterr().err


def test_nothing_of_a_plugin_is_imported_or_listed_unless_it_is_named(installed):
    run = fastdp.synthesize(rows(), "mst", epsilon=1.0, delta=1e-6, schema=SCHEMA, seed=1)
    for registry in REGISTRIES.values():
        registry.names()
    assert not any(name.startswith("fastdp_example") for name in sys.modules)
    assert MECHANISMS.outside("star") and "star" not in MECHANISMS.names()
    assert not any(name.startswith("fastdp_example") for name in sys.modules)
    assert "plugins" not in run.privacy["mechanism"]


def test_a_loaded_source_takes_only_what_is_given_to_it_by_name(installed):
    """`zipped` would take any path: after it was used, paths are still files."""
    fastdp.source("zipped", archive(installed))
    pq.write_table(rows(), installed / "plain.parquet")
    assert fastdp.read(installed / "plain.parquet", SCHEMA).rows == 400


def test_a_name_that_two_packages_have_or_that_is_not_registered_is_refused(installed):
    install(installed / "site", "fastdp-other", "2.0")
    with pytest.raises(UsageError, match=r"several installed packages \(.*fastdp-other 2.0"):
        MECHANISMS.get("star")
    broken = installed / "site" / "fastdp_other-2.0.dist-info" / "entry_points.txt"
    broken.write_text(
        "[fastdp.mechanisms]\nnobody = fastdp_example.mode\nabsent = no_such_module\n"
    )
    with pytest.raises(UsageError, match=r"registers no mechanism 'nobody'"):
        MECHANISMS.get("nobody")
    with pytest.raises(UsageError, match=r"cannot be imported"):
        MECHANISMS.get("absent")
    with pytest.raises(UsageError, match="there is no source 'star'"):
        fastdp.source("star", "x")


def test_a_plugin_cannot_take_the_name_of_something_that_exists():
    with pytest.raises(ValueError, match="two mechanisms of the name 'mst'"):
        MECHANISMS.get("mst") and MECHANISMS.add("mst", "elsewhere")(object())


def test_a_mechanism_is_given_a_session_and_no_rows(installed):
    """What `run` gets leads to no table, source or engine by a public name."""
    seen = {}
    star = MECHANISMS.get("star")
    run = star.run

    def look(self, session, job):
        seen["session"] = {name for name in dir(session) if not name.startswith("_")}
        seen["job"] = set(job.__struct_fields__)
        return run(self, session, job)

    star.run = look
    try:
        fastdp.synthesize(rows(), "star", epsilon=1.0, delta=1e-6, schema=SCHEMA, seed=1)
    finally:
        star.run = run
    private = {"table", "source", "counter", "engine", "rows_of", "codes"}
    assert not seen["session"] & private and not seen["job"] & private


@pytest.mark.slow
def test_the_example_package_installs_and_is_found(tmp_path):
    """Where pip and setuptools are there and fastdp need not be built for it."""
    # Importing setuptools here would replace distutils under whoever has imported it before.
    for package in ("pip", "setuptools"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target"]
    source = tmp_path / "source"
    subprocess.run(["cp", "-r", str(EXAMPLE), str(source)], check=True)
    made = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(tmp_path / "site"), str(source)],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr[-2000:]
    points = next((tmp_path / "site").glob("*.dist-info")) / "entry_points.txt"
    assert "star = fastdp_example.star" in points.read_text()


def test_a_registry_without_a_group_takes_no_plugins():
    assert not Registry("thing", "fastdp").outside("star")
