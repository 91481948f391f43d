"""The README is true: its commands, targets and links exist, and it names everything that ships."""

import re
import tomllib
from importlib import resources
from pathlib import Path

import numpy as np

import fastdp
from fastdp.mechanisms import names
from fastdp.mechanisms.recipe import load

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"`?make ([a-z-]+)", TEXT))
    assert {"demo", "test"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    folder = ROOT / "docs"
    pages = [p.relative_to(folder).as_posix() for p in folder.rglob("*.md") if p.name != "index.md"]
    assert [name for name in pages if f"({name})" not in index] == []


def test_the_table_of_mechanisms_is_the_registrys():
    """Every mechanism has one row, and a row's recipes are those that use its mechanism."""
    text = (ROOT / "docs" / "guide" / "choosing.md").read_text("utf-8")
    rows = text[text.index("| mechanism | for") :].split("\n\n")[0].splitlines()[2:]
    cells = [[re.findall(r"`([^`]+)`", cell) for cell in row.strip("| ").split("|")] for row in rows]
    assert sorted(name for row in cells for name in row[0]) == sorted(names())
    made = {p.name.removesuffix(".toml") for p in (resources.files(fastdp) / "recipes").iterdir()}
    assert {name for row in cells for name in row[2]} == made
    for row in cells:
        assert {load(recipe).mechanism for recipe in row[2]} <= set(row[0])


def test_the_version_is_in_the_changelog():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"## [{project['version']}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_first_programs_interval_holds_the_truth():
    """The number that README's program prints, on fewer trips: a share of the true trips, and its truth."""
    program = TEXT[TEXT.index("import fastdp\n") :].split("```")[0].replace("1_000_000", "60_000")
    names = {}
    exec(compile(program.split("scores =")[0], "README", "exec"), names)
    truth = np.mean(names["trips"]["payment_type"].to_numpy() == 1)
    assert names["card"]["basis"] == "measured" and names["card"]["low"] <= truth <= names["card"]["high"]
