"""`private_dir=`: what is not for release lies elsewhere, in a folder of this run alone."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.cli import app
from fastdp.errors import Cancelled, RunError, UsageError
from tests.builders import open_ledger
from tests.run.test_private_folder import modes
from tests.run.test_synthesize import RECIPE, go, small_data, small_schema
from tests.tiers import first


def names(folder):
    return {path.name for path in folder.iterdir()}


def interrupted(ledger, **options):
    """A run that is cancelled after its first charged step."""

    def cancel():
        return any(entry["steps"] for entry in ledger.entries("d"))

    with pytest.raises(Cancelled, match="charged"):
        start(ledger, cancel=cancel, **options)


def start(ledger, **options):
    return go(small_data(), schema=small_schema(), ledger=ledger, dataset="d", **options)


@pytest.mark.parametrize("there", first(1, [False, True]), ids=["new folder", "empty folder"])
def test_nothing_lies_next_to_the_run_folder(tmp_path, there):
    shared = tmp_path / "shared"
    private = tmp_path / "mine" / "deep"
    if there:
        private.mkdir(parents=True, mode=0o777)
    before = os.umask(0)
    try:
        run = go(
            small_data(),
            schema=small_schema(),
            epsilon=[1.0, 3.0],
            out=shared / "run",
            private_dir=private,
            report=True,
            diagnose=True,
        )
    finally:
        os.umask(before)
    assert names(shared) == {"run"} and len(run) == 2
    found = modes(private)
    expected = {"report-eps-1.html", "report-eps-3.html", "timings.json", "reading.json"}
    assert expected | {"check.json", "check.txt", "ledger.db", "run-folder.txt"} <= set(found)
    assert set(found.values()) == {0o600} and private.stat().st_mode & 0o777 == 0o700
    assert not {"lock", "state.json"} & set(found)
    assert fastdp.verify(shared / "run", private / "ledger.db").ok


@pytest.mark.slow
def test_linked_tables_write_private_files_where_told(tmp_path):
    tables = fastdp.simulate.households(200, seed=1)
    options = {"epsilon": 1.0, "delta": 1e-6, "ignore_empty_columns": True}
    run = fastdp.synthesize(
        tables, "households", out=tmp_path / "run", private_dir=tmp_path / "mine", **options
    )
    assert names(tmp_path) == {"run", "mine"} and "timings.json" in names(tmp_path / "mine")
    assert fastdp.verify(run).ok


def test_an_interrupted_run_is_charged_once_and_needs_the_folder_again(tmp_path):
    """Without the note beside it, the same call without `private_dir` would be charged anew."""
    ledger = open_ledger(tmp_path, epsilon=20.0, delta=1e-5)
    place = {"out": tmp_path / "shared" / "run"}
    mine = tmp_path / "mine"
    interrupted(ledger, private_dir=mine, **place)
    assert names(tmp_path / "shared") == {"run.unfinished"} and "state.json" in names(mine)
    (before,) = ledger.entries("d")
    for forgotten in ({}, {"resume": True}, {"private_dir": tmp_path / "other", "resume": True}):
        with pytest.raises(RunError) as caught:
            start(ledger, **place, **forgotten)
        assert str(mine) in str(caught.value) and "private_dir=" in str(caught.value)
    with pytest.raises(RunError, match="with resume=True"):
        start(ledger, private_dir=mine, **place)
    run = start(ledger, private_dir=mine, resume=True, **place)
    (entry,) = ledger.entries("d")
    answers = {step["label"]: step["answers"] for step in entry["steps"]}
    assert all(
        answers[step["label"]] == step["answers"] for step in before["steps"] if step["answered"]
    )
    assert names(tmp_path / "shared") == {"run"} and not (tmp_path / "other").exists()
    assert fastdp.verify(run, ledger).ok


def test_the_note_is_shown_and_never_followed(tmp_path):
    """Whoever can write next to the run folder must not choose where private files go."""
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "run.unfinished").write_text(f"{elsewhere}\n")
    for resume in (False, True):
        with pytest.raises(RunError, match="remove that file"):
            go(small_data(), schema=small_schema(), out=tmp_path / "run", resume=resume)
    assert names(tmp_path) == {"run.unfinished"}
    os.unlink(tmp_path / "run.unfinished")
    os.mkfifo(tmp_path / "run.unfinished")  # reading it must not wait for a writer
    with pytest.raises(RunError, match="remove that file"):
        go(small_data(), schema=small_schema(), out=tmp_path / "run")


def test_two_runs_never_share_one(tmp_path):
    mine = tmp_path / "mine"
    options = {"schema": small_schema(), "private_dir": mine}
    go(small_data(), out=tmp_path / "a", **options)
    kept = {path.name: path.read_bytes() for path in mine.iterdir()}
    for resume in (False, True):
        with pytest.raises(RunError, match="private"):
            go(small_data(), out=tmp_path / "b", resume=resume, **options)
    assert {path.name: path.read_bytes() for path in mine.iterdir()} == kept
    assert names(tmp_path) == {"a", "mine"}


@pytest.mark.parametrize(
    "kind", ["files of others", "link", "dangling link", "file", "link inside"]
)
def test_folders_that_are_not_the_runs_are_refused_unchanged(tmp_path, kind):
    """A home folder by mistake must not lose its modes."""
    mine = tmp_path / "mine"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if kind == "file":
        mine.write_text("x")
    elif kind.endswith("link"):
        mine.symlink_to(elsewhere if kind == "link" else tmp_path / "nowhere")
    else:
        mine.mkdir(mode=0o755)
        (mine / "run-folder.txt").write_text(f"{tmp_path / 'new' / 'run'}\n")
        if kind == "files of others":
            (mine / "run-folder.txt").rename(mine / "notes.txt")
        else:
            (mine / "reading.json").symlink_to(elsewhere / "reading.json")
    before = mine.lstat().st_mode, [p.lstat().st_mode for p in sorted(tmp_path.rglob("*"))]
    with pytest.raises(RunError):
        go(small_data(), schema=small_schema(), out=tmp_path / "new" / "run", private_dir=mine)
    after = mine.lstat().st_mode, [p.lstat().st_mode for p in sorted(tmp_path.rglob("*"))]
    assert after == before


def test_a_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(RunError, match="somebody else"):
        go(
            small_data(),
            schema=small_schema(),
            out=tmp_path / "run",
            private_dir=tmp_path / "mine",
        )
    assert names(tmp_path) == {"mine"}


def test_it_never_lies_in_a_folder_for_release(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "privacy.json").write_text("{}")
    (tmp_path / "door").symlink_to(tmp_path / "other")
    (tmp_path / "real").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "real")
    before = names(tmp_path)
    out = tmp_path / "real" / "run"
    inside = [out, out / "x", out.parent, tmp_path / "way" / "run" / "x"]
    for private in (*inside, tmp_path / "other" / "x", tmp_path / "door" / "deep" / "x"):
        with pytest.raises(UsageError, match="must not lie in"):
            go(small_data(), schema=small_schema(), out=out, private_dir=private)
    with pytest.raises(UsageError, match="need out="):
        go(small_data(), schema=small_schema(), private_dir=tmp_path / "mine")
    assert names(tmp_path) == before and not names(tmp_path / "real")


def test_what_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("fastdp.run.folder.write_atomic", refuse_to_write)
    (tmp_path / "empty").mkdir()
    for private in (tmp_path / "new" / "mine", tmp_path / "empty"):
        with pytest.raises(RunError, match="cannot write to"):
            go(
                small_data(),
                schema=small_schema(),
                out=tmp_path / "far" / "run",
                private_dir=private,
            )
    assert names(tmp_path) == {"empty"} and not names(tmp_path / "empty")


def refuse_to_write(*_):
    raise PermissionError(13, "Permission denied")


def test_the_command_line_names_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(small_data()), "data.parquet")
    small_schema().save("schema.json")
    asked = ["synth", "data.parquet", "-s", "schema.json", "-m", "mst", "-e", "3", "-d", "1e-6"]
    app.call([*asked, "--out", "run", "--private-dir", "mine", "--report"])
    shown = capsys.readouterr().out
    assert "mine/report.html" in shown and "mine/reading.json" in shown
    assert "run.private" not in shown and names(tmp_path / "mine") >= {"report.html"}
    with pytest.raises(SystemExit) as caught:
        app.main([*asked, "--out", "other", "--private-dir", "mine"])
    assert caught.value.code == RunError.exit_code
    assert "--private-dir: " in capsys.readouterr().err


def test_the_default_can_be_named(tmp_path):
    go(
        small_data(),
        mechanism=RECIPE,
        schema=small_schema(),
        out=tmp_path / "run",
        private_dir=tmp_path / "run.private",
    )
    assert names(tmp_path) == {"run", "run.private"}
