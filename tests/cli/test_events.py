"""`--progress json`: every line is an event with its documented fields, and an error ends them."""

import json
import re
from pathlib import Path

import pytest

from fastdp.cli import events, interrupt
from fastdp.run.status import RunStatus
from tests.cli.test_app import fastdp_cli, place  # noqa: F401

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "nightly.md"
FIELDS = {
    "start": {"fastdp", "out", "resume"},
    "progress": {"stage", "run", "fraction", "seconds", "seconds_left"},
    "done": {"out", "seconds", "runs"},
    "error": {"kind", "text", "exit_code", "charged", "resumable"},
    "stopped": {"text", "exit_code", "charged", "resumable"},
}


def parsed(text):
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    for event in found:
        assert set(event) == {"event", "format", *FIELDS[event["event"]]}
        assert event["format"] == events.FORMAT
    return found


def test_a_run_reports_its_stages_in_order(place):  # noqa: F811
    given = ["data.parquet", "-m", "recipe.toml", "-e", 1, "-d", "1e-6", "--out", "told"]
    ended = fastdp_cli("synth", *given, "--progress", "json", "--quiet", cwd=place)
    found = parsed(ended.stderr)
    assert [found[0]["event"], found[-1]["event"]] == ["start", "done"]
    stages = list(dict.fromkeys(e["stage"] for e in found if e["event"] == "progress"))
    assert stages == ["read", "measure", "fit", "sample", "ids", "write"]
    fractions = [e["fraction"] for e in found if e["event"] == "progress"]
    assert fractions == sorted(fractions) and fractions[-1] == 1
    assert found[-1]["runs"][0]["epsilon"] <= 1 and ended.stdout == ""

    again = fastdp_cli("synth", *given, "--progress=json", cwd=place, check=False)
    last = parsed(again.stderr)[-1]
    assert (last["event"], last["exit_code"]) == ("error", again.returncode)
    assert last["kind"] == "RunError" and not last["charged"] and not last["resumable"]


def test_an_error_after_the_charge_says_that_the_run_can_be_resumed(place, monkeypatch):  # noqa: F811
    def disk_is_full(*_):
        raise OSError(28, "the disk is full")

    given = ["data.parquet", "-m", "recipe.toml", "-e", 1, "-d", "1e-6", "--out", "full"]
    monkeypatch.setattr("fastdp.run.output.Output.write", disk_is_full)
    ended = fastdp_cli("synth", *given, "--progress", "json", cwd=place, check=False)
    last = parsed(ended.stderr)[-1]
    assert last["exit_code"] == 10 and last["charged"] and last["resumable"]


def test_a_signal_and_a_wrong_form(place):  # noqa: F811
    line = events.stopped_line("terminated", 143, RunStatus())
    assert parsed(line)[0]["charged"] is False
    heard = interrupt.Interruption(["synth", "x", "--progress=json"])
    assert events.asked_for(heard.arguments) and not events.asked_for(["synth", "--progress"])
    ended = fastdp_cli(
        "synth", "data.parquet", "-e", 1, "--progress", "xml", cwd=place, check=False
    )
    assert ended.returncode == 2 and "auto, json" in ended.stderr


@pytest.mark.parametrize("name", FIELDS)
def test_the_page_names_every_field(name):
    (row,) = re.findall(rf"^\| `{name}` \| (?!.*begins)(.*) \|$", PAGE.read_text("utf-8"), re.M)[
        -1:
    ]
    for field in FIELDS[name] if name != "stopped" else ():
        assert f"`{field}`" in row
