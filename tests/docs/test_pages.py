"""Documents: every link between them leads somewhere, every page is on the site, and every name of
code in them exists."""

import importlib
import re
import tomllib
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from pyarrow.csv import write_csv

import fastdp
from fastdp.mechanisms import get, names
from fastdp.mechanisms.recipe import load

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TEXTS = [
    *PAGES,
    *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "SECURITY", "CONTRIBUTING")),
]


def links(text):
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]


def anchors(path):
    heads = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", TEXTS, ids=lambda p: p.name)
def test_links_of_a_page_lead_somewhere(page):
    for link in links(page.read_text("utf-8")):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_is_on_the_site_and_in_the_index():
    named = set(re.findall(r"docs/[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))
    assert {page.relative_to(ROOT).as_posix() for page in PAGES} <= named
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    folder = ROOT / "docs"
    pages = [p.relative_to(folder).as_posix() for p in folder.rglob("*.md") if p.name != "index.md"]
    assert [name for name in pages if f"({name})" not in index] == []


def resolved(name):
    """The object behind a dotted name; AttributeError if there is none."""
    words = name.split(".")
    for count in range(len(words), 0, -1):
        try:
            thing = importlib.import_module(".".join(words[:count]))
        except ImportError:
            continue
        for word in words[count:]:
            thing = getattr(thing, word)
        return thing


def exists(name):
    """Whether a file named from the root is there: fastdp's where it is installed, C sources if any
    are."""
    top, _, rest = name.partition("/")
    if top == "csrc" and not (ROOT / top).exists():
        return True
    return (Path(fastdp.__file__).parent / rest if top == "fastdp" else ROOT / name).exists()


def runnable(module: str) -> bool:
    """Whether there is a module of this name, or a package that `python -m` runs."""
    place = ROOT / module.replace(".", "/")
    return place.with_suffix(".py").exists() or (place / "__main__.py").exists()


@pytest.mark.parametrize("page", TEXTS, ids=lambda p: p.name)
def test_names_of_code_exist(page):
    text = page.read_text("utf-8")
    for name in set(re.findall(r"`(fastdp\.[\w.]*\w)(?=[`(])", text)):
        resolved(name)
    files = set(re.findall(r"`((?:fastdp|tests|bench|csrc|examples)/[\w./-]+\.\w+)`", text))
    assert [name for name in files if not exists(name)] == []
    modules = set(re.findall(r"python -m (bench\.\w+)", text))
    assert [name for name in modules if not runnable(name)] == []


# The README is true: its commands, targets and links exist, and it names everything that ships.


TEXT = (ROOT / "README.md").read_text("utf-8")


def test_make_targets_exist_and_the_version_is_in_the_changelog():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"`?make ([a-z-]+)", TEXT))
    assert {"demo", "test"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"## [{project['version']}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_table_of_mechanisms_is_the_registrys():
    """Every mechanism has one row, and a row's recipes are those that use its mechanism."""
    text = (ROOT / "docs" / "guide" / "choosing.md").read_text("utf-8")
    rows = text[text.index("| mechanism | for") :].split("\n\n")[0].splitlines()[2:]
    cells = [
        [re.findall(r"`([^`]+)`", cell) for cell in row.strip("| ").split("|")] for row in rows
    ]
    listed = {name for row in cells for name in row[0]}
    lacking = sorted(set(names()) - listed)
    assert not lacking, (
        f"docs/guide/choosing.md needs a row, with the text of `about`, for {lacking}"
    )
    assert sorted(name for row in cells for name in row[0]) == sorted(names())
    for row in rows:
        named, use = row.strip("| ").split("|")[:2]
        for name in re.findall(r"`([^`]+)`", named):
            assert get(name).traits.about == use.strip(), (
                f"{name}: the table differs from its traits"
            )
    made = {p.name.removesuffix(".toml") for p in (resources.files(fastdp) / "recipes").iterdir()}
    assert {name for row in cells for name in row[2]} == made
    for row in cells:
        assert {load(recipe).mechanism for recipe in row[2]} <= set(row[0])


def test_the_first_programs_intervals_hold_the_truth(tmp_path, monkeypatch):
    """Numbers of the true purchases lie in the intervals that README prints, and in those of its
    program on fewer people, with a seed since 1 in 20 intervals may miss. (With 1,000 people the mean is
    withheld in some runs.)"""
    asked = re.search(r"simulate purchases --rows (\d+) --seed (\d+)", TEXT)
    table = fastdp.simulate.purchases(int(asked[1]), seed=int(asked[2]))
    printed = re.findall(r"^(share of users.*|mean\(amount\)): ([\d.]+) to ([\d.]+)$", TEXT, re.M)
    rounded = 0.0005
    for name, low, high in printed:
        value = purchase_numbers(table)[name]
        assert float(low) - rounded <= value <= float(high) + rounded, name
    monkeypatch.chdir(tmp_path)
    small = fastdp.simulate.purchases(2_000, seed=1)
    write_csv(small, "purchases.csv")
    program = TEXT[TEXT.index("import fastdp\n") :].split("```")[0]
    program = program.replace('out="run"', "seed=6, sample_seed=6")
    names = {}
    exec(compile(program, "README", "exec"), names)
    found = {row["number"]: row for row in names["run"].numbers.to_pylist()}
    assert set(found) == {name for name, *_ in printed}
    for name, row in found.items():
        assert row["low"] <= purchase_numbers(small)[name] <= row["high"], name


def purchase_numbers(table):
    """The numbers that README asks for, of the true rows."""
    _, rows = np.unique(table["customer"].to_numpy(), return_counts=True)
    return {
        "share of users where rows > 1": np.mean(rows > 1),
        "mean(amount)": np.mean(table["amount"].to_numpy()),
    }
