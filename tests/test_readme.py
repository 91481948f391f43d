"""The README is true: its first program prints what is shown (up to the noise), and its commands and links
exist."""

import re
import shlex
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest

import fastdp
from fastdp.mechanisms import names

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.S)
PROGRAM = next(body for kind, body in BLOCKS if kind == "python")
PRINTED = next(body for kind, body in BLOCKS if kind == "text")
SESSION = "".join(body for kind, body in BLOCKS if kind == "console")
COMMANDS = [line[2:] for line in SESSION.replace("\\\n", " ").splitlines() if line.startswith("$ ")]


def shape(text):
    """The text with every number replaced: noise changes them from run to run."""
    return re.sub(r"\s+", " ", re.sub(r"[\d,.]*\d", "#", text)).strip()


def test_the_first_program_prints_what_is_shown():
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert shape(done.stdout) == shape(PRINTED)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("fastdp ")])
def test_every_command_and_option_exists(command):
    words = shlex.split(command, comments=True)[1:]
    verb = words[:2] if words[0] in ("ledger", "schema", "archetypes") else words[:1]
    done = subprocess.run(
        [sys.executable, "-m", "fastdp", *verb, "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for option in (w for w in words if w.startswith("--")):
        assert option in done.stdout, f"{verb} has no {option}"


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"`?make ([a-z-]+)", TEXT))
    assert {"demo", "test"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert len(links) >= 4
    for link in links:
        if not link.startswith("http"):
            assert (ROOT / link.split("#")[0]).exists(), link


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    pages = [p.name for p in (ROOT / "docs").glob("*.md") if p.name != "index.md"]
    assert [name for name in pages if f"({name})" not in index] == []


def test_mechanisms_and_recipes_are_all_named():
    table = TEXT[TEXT.index("| mechanism") :]
    recipes = [p.name.removesuffix(".toml") for p in (resources.files(fastdp) / "recipes").iterdir()]
    for name in (*names(), *recipes):
        assert f"`{name}`" in table, name


def test_the_version_is_in_the_changelog():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"## [{project['version']}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")
