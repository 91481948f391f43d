"""Paths given as URLs: `file:` names local files, and every other scheme is refused before anything
is charged or written."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fastdp
from fastdp._util.files import as_path, source_path
from fastdp.errors import DataError, UsageError
from fastdp.measurement import Measurement
from tests.cli.test_app import fastdp_cli

URLS = (
    "s3://bucket/out",
    "S3A://bucket/out",
    "gs://bucket/out",
    "abfss://box@account.net/out",
    "https://host/out",
    "dbfs:/mnt/out",
    "sftp://host/out",
    "memory://out",
    " s3://bucket/out",
    "s3:/bucket/out",
)
SCHEMA = {"columns": {"n": {"kind": "integer", "max": 3}}}


class CloudPath:
    """A path object like those of cloud libraries: its file is a local copy."""

    def __fspath__(self):
        return "/tmp/copy-of-out"

    def __str__(self):
        return "s3://bucket/out"


def writers():
    """Calls that write to the path they are given, by name."""
    schema = fastdp.Schema.from_dict(SCHEMA)
    frame = pl.DataFrame({"n": np.arange(200) % 4})
    run = fastdp.synthesize(frame, epsilon=1, delta=1e-6, schema=schema, progress=False)
    model = fastdp.fit({"n": 4}, [Measurement(("n",), np.ones(4), 1.0)])
    linked = fastdp.LinkedSchema.load("households")
    return {
        "write": lambda p: run.write(f"{p}.parquet"),
        "model": model.save,
        "schema": lambda p: schema.save(f"{p}.toml"),
        "report": lambda p: fastdp.evaluate(frame, frame, schema, report=p),
        "draft": lambda p: fastdp.draft(frame).save(f"{p}.toml"),
        "ledger": lambda p: fastdp.Ledger(p).open("d", epsilon=1, delta=1e-6),
        "linked schema": lambda p: linked.save(f"{p}.json"),
    }


@pytest.fixture(scope="module")
def calls():
    return writers()


@pytest.mark.parametrize("url", URLS)
def test_no_output_is_written_to_a_url(tmp_path, monkeypatch, calls, url):
    monkeypatch.chdir(tmp_path)
    for call in calls.values():
        with pytest.raises(UsageError, match="is a URL"):
            call(url)
    for given in (url, Path(url)):
        with pytest.raises(UsageError, match="is a URL"):
            as_path(given, "out=")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", [URLS[1], *URLS[4:8], Path(URLS[0]), CloudPath()])
def test_a_run_into_a_url_is_refused_before_the_charge(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    book = fastdp.Ledger(tmp_path / "budget.db")
    book.open("d", epsilon=1, delta=1e-6)
    before = set(tmp_path.iterdir())
    frame = pl.DataFrame({"n": [1, 2]})
    schema = fastdp.Schema.from_dict(SCHEMA)
    with pytest.raises(UsageError, match=r"out=: .* is a URL"):
        fastdp.synthesize(
            frame, epsilon=1, delta=1e-6, schema=schema, ledger=book, dataset="d", out=out
        )
    assert book.entries() == [] and set(tmp_path.iterdir()) == before


def test_no_command_writes_to_a_url(tmp_path):
    pl.DataFrame({"n": np.arange(50) % 4}).write_parquet(tmp_path / "d.parquet")
    fastdp.Schema.from_dict(SCHEMA).save(tmp_path / "s.toml")
    before = set(tmp_path.iterdir())
    synth = ("synth", "d.parquet", "-s", "s.toml", "-e", "1", "-d", "1e-6")
    url = "s3://bucket/out"
    for command in (
        (*synth, "--out", "https://host/out"),
        (*synth, "--out", "run", "--ledger", url, "--dataset", "d"),
        ("evaluate", "d.parquet", "d.parquet", "--out", url),
        ("simulate", "taxi", "--rows", "10", "--out", f"{url}.parquet"),
        ("simulate", "households", "--rows", "10", "--out", url),
        ("check", "d.parquet", "-s", "s.toml", "--out", url),
        ("schema", "draft", "d.parquet", "--out", f"{url}.toml"),
        ("ledger", "open", url, "d", "--epsilon", "1", "--delta", "1e-6"),
    ):
        done = fastdp_cli(*command, cwd=tmp_path, check=False)
        assert done.returncode == UsageError.exit_code and "is a URL" in done.stderr, command
    assert set(tmp_path.iterdir()) == before


def test_file_urls_name_local_files_in_and_out(tmp_path):
    folder = tmp_path / "a b"
    folder.mkdir()
    pl.DataFrame({"n": np.arange(200) % 4}).write_parquet(folder / "d.parquet")
    base = f"file://{tmp_path}/a%20b"
    schema = fastdp.Schema.from_dict(SCHEMA)
    schema.save(f"{base}/s.toml")
    assert fastdp.Schema.load(f"{base}/s.toml") == schema
    for source in (f"{base}/d.parquet", f"{base}/*.parquet", base.replace("//", "//localhost")):
        if source.endswith("b"):
            (folder / "s.toml").unlink()  # a folder is read whole
        assert fastdp.read(source, schema).rows == 200
    schema.save(folder / "s.toml")
    fastdp.synthesize(
        f"{base}/d.parquet", epsilon=1, delta=1e-6, schema=f"{base}/s.toml", out=f"{base}/run"
    )
    assert fastdp.verify(f"{base}/run").ok and (folder / "run" / "privacy.json").is_file()
    fastdp_cli(
        *("synth", f"{base}/d.parquet", "-s", f"{base}/s.toml", "-e", "1", "-d", "1e-6"),
        *("--out", f"{base}/again", "-q"),
        cwd=tmp_path,
    )
    fastdp_cli("evaluate", f"{base}/d.parquet", f"{base}/again", cwd=tmp_path)
    fastdp_cli("verify", f"{base}/again", cwd=tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a b"]


def test_file_urls_of_other_machines_are_refused():
    for url in ("file://server/x", "file://server"):
        with pytest.raises(UsageError, match="on this machine"):
            as_path(url, "out=")


@pytest.mark.parametrize(
    "url", [*URLS[:8], "https://host/data/*.csv", "https://host/", "ftp://h/a.csv"]
)
def test_advice_for_a_url_of_data_can_work(url):
    with pytest.raises(DataError, match="local files only") as refused:
        source_path(url)
    one_file = url in ("https://host/out", "ftp://h/a.csv")
    assert ("curl" in str(refused.value)) == one_file  # curl knows no stores, globs or folders


def test_paths_with_colons_are_paths():
    for name in ("12:30.txt", "a:b", "x:/y", "C:/data"):
        assert as_path(name, "out=") == Path(name)
    with pytest.raises(UsageError, match="is a URL"):
        as_path("sub/s3://bucket/out", "out=")
