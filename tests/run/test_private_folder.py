"""DIR.private is for its owner alone: no link, no folder of somebody else, modes 0700 and 0600."""

import os

import pytest

from fastdp.errors import RunError
from tests.run.test_synthesize import go, small_data, small_schema


def modes(folder):
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


def test_everything_in_it_is_for_the_owner(tmp_path):
    private = tmp_path / "run.private"
    private.mkdir(mode=0o777)
    (private / "earlier.txt").write_text("x")
    private.chmod(0o777)
    before = os.umask(0)
    try:
        go(
            small_data(),
            schema=small_schema(),
            out=tmp_path / "run",
            report=True,
            diagnose=True,
        )
    finally:
        os.umask(before)
    found = modes(private)
    assert {"report.html", "timings.json", "reading.json", "check.json"} <= set(found)
    assert set(found.values()) == {0o600} and private.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["link to a folder", "dangling link", "file", "link inside"])
def test_links_are_refused_before_the_charge(tmp_path, kind):
    private = tmp_path / "run.private"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if kind == "file":
        private.write_text("x")
    elif kind == "link inside":
        private.mkdir()
        (private / "reading.json").symlink_to(elsewhere / "reading.json")
    else:
        private.symlink_to(elsewhere if kind == "link to a folder" else tmp_path / "nowhere")
    with pytest.raises(RunError, match="remove it"):
        go(small_data(), schema=small_schema(), out=tmp_path / "run")
    assert not list(elsewhere.iterdir()) and not (tmp_path / "run").exists()


def test_a_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    (tmp_path / "run.private").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(RunError, match="somebody else"):
        go(small_data(), schema=small_schema(), out=tmp_path / "run")
