"""Names and notes are printed as they are: no markup is parsed, and no control character reaches
the terminal."""

import json

import numpy as np
import polars as pl
import pytest

import fastdp
from tests.cli.test_app import fastdp_cli

NAMES = ("size [/m]", "[bold]n", "a[/]b", ":smile:", "[link=x]y[/link]")
ESCAPE = "\x1b[2J\x1b[Hepsilon 0.01\x1b[8m\x9b1A\r"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("printing")
    columns = {name: np.arange(300) % 4 for name in NAMES}
    pl.DataFrame(columns).write_csv(folder / "d [x].csv")
    entries = {name: {"kind": "integer", "max": 3} for name in NAMES}
    fastdp.Schema.from_dict({"columns": entries}).save(folder / "s.toml")
    return folder


def test_names_with_brackets_are_printed_whole(place):
    synth = ("synth", "d [x].csv", "-s", "s.toml", "-e", "0.1", "-d", "1e-6", "--out", "run [/b]")
    done = fastdp_cli(*synth, "--report", cwd=place)
    assert "run [/b]" in done.stdout and NAMES[0] in done.stdout
    scores = fastdp_cli("evaluate", "d [x].csv", "run [/b]", cwd=place)
    assert "score" in scores.stdout
    shown = fastdp_cli("check", "d [x].csv", "-s", "s.toml", cwd=place).stdout
    assert all(name in shown for name in NAMES)


def test_no_command_prints_control_characters(place):
    fastdp_cli(
        *("synth", "d [x].csv", "-s", "s.toml", "-e", "3", "-d", "1e-6", "--out", "hostile", "-q"),
        cwd=place,
    )
    path = place / "hostile" / "privacy.json"
    statement = json.loads(path.read_text())
    statement["notes"].insert(0, ESCAPE)
    path.write_text(json.dumps(statement))
    for command in (
        ("statement", "hostile"),
        ("verify", "hostile"),
        ("answer", "hostile", f"count by {ESCAPE}"),
        ("schema", "show", ESCAPE),
        ("simulate", ESCAPE, "--rows", "1", "--out", "x"),
    ):
        done = fastdp_cli(*command, cwd=place, check=False)
        printed = done.stdout + done.stderr
        assert printed and not {"\x1b", "\x9b", "\r"} & set(printed), command
