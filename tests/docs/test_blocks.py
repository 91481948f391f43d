"""Every code block of README and docs/ runs, in its page's order, and prints what is shown under
it."""

import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from pyarrow import csv

import fastdp
from tests.docs import tables
from tests.docs.pages import PAGES, Runner, blocks

WITH_BLOCKS = [page for page in PAGES if any(blocks(page))]
NOT_RUN = 6
"""At most so many blocks are not run, each with its reason in the page."""


def tutorial(_):
    assert Path("run.private/report.html").stat().st_size > 10_000
    assert "LEARNT" in Path("draft.toml").read_text()
    assert not Path("again").exists()
    true = csv.read_csv("flights.csv")
    run = fastdp.load_run("run")
    sure = {"level": 0.9999}
    (late,) = run.answer("share", where={"dep_delay": (60, None)}, **sure).to_pylist()
    assert late["low"] <= np.mean(np.nan_to_num(true["dep_delay"].to_numpy()) >= 60) <= late["high"]
    # A forgotten clip would lose half.
    for line in run.answer("count", "origin", **sure).to_pylist():
        assert (
            line["low"] <= pc.sum(pc.equal(true["origin"], line["origin"])).as_py() <= line["high"]
        )


def retention(names):
    """The figures of the page are those of its code: within five standard deviations, rounded."""
    page = next(p for p in PAGES if p.name == "users.md").read_text("utf-8")
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if " ± " in line]
    assert [what for what, *_ in lines] == list(names["found"]["truth"])
    for what, *cells in lines:
        for cell, found in zip(cells, names["found"].values(), strict=True):
            mean, _, deviation = cell.partition(" ± ")
            room = 5 * max(float(deviation), 0.01) if deviation else 0
            assert abs(float(mean) - found[what]) <= 0.0051 + room, (what, cell, found[what])


def press(names):
    """The sentences hold the truth, each within twice its interval: a miss of 1 in 10,000."""
    total = names["total"]
    truth = names["truth"]
    wide = total["capped_high"] - total["capped_low"]
    assert abs(total["capped"] - truth["capped"]) <= wide and total["low"] <= total["high"]
    assert total["low"] - wide <= truth["total"] <= 2 * total["high"]
    for line, what in ((names["doctor"], "doctor"), (names["median"], "median")):
        assert abs(line["estimate"] - truth[what]) <= line["high"] - line["low"]
    assert len(names["sentences"]) == 3


NEEDS = {
    "embedding.md": "duckdb",
    "databases.md": "duckdb",
    "lakehouses.md": "deltalake",
    "press-numbers.md": "statsmodels",
}
"""A package that a page uses; without it, the page is skipped."""
AFTER = {"own-table.md": tutorial, "press-numbers.md": press}
"""What must hold after a page, in its folder and of the names of its code."""
AT_FULL_SIZE = {"own-table.md": tutorial, "users.md": retention}
"""The same of pages whose tables have as many rows as the page says (`make test-slow`)."""


@pytest.fixture(scope="session")
def common(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    tables.make(folder)
    return folder


def run_blocks(page, common, tmp_path, monkeypatch, fewer):
    """Runs a page; the names of its code."""
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name], reason=f"{NEEDS[page.name]} is not installed")

    def begin(folder):
        shutil.copytree(common, folder)  # not links: a page may write over a file
        monkeypatch.chdir(folder)
        return tables.BESIDE.get(page.name, lambda _: {})(folder)

    runner = Runner(begin(tmp_path / "0"), tables.WORDS.get(page.name, {}), fewer)
    for number, block in enumerate(blocks(page), 1):
        if block.note("in a new folder") is not None:
            runner.names.update(begin(tmp_path / str(number)))
        if block.note("not run") is None:
            try:
                runner.run(block)
            except Exception as error:
                raise AssertionError(f"{page.name}, line {block.line}: {error}") from error
    return runner.names


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.name)
def test_blocks_run_in_their_order(page, common, tmp_path, monkeypatch):
    names = run_blocks(page, common, tmp_path, monkeypatch, tables.FEWER)
    AFTER.get(page.name, lambda _: None)(names)


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_FULL_SIZE)
def test_blocks_run_with_as_many_rows_as_the_page_says(name, common, tmp_path, monkeypatch):
    (page,) = [page for page in WITH_BLOCKS if page.name == name and "research" not in page.parts]
    AT_FULL_SIZE[name](run_blocks(page, common, tmp_path, monkeypatch, {}))


def test_few_blocks_are_not_run_and_each_says_why():
    reasons = [block.note("not run") for page in PAGES for block in blocks(page)]
    reasons = [reason for reason in reasons if reason is not None]
    assert all(len(reason) > 10 for reason in reasons) and len(reasons) <= NOT_RUN


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_fenced_and_of_a_kind_that_is_run(page):
    """Commands that are only indented, or a fence without a kind, would be looked at by nobody."""
    kinds = {name for name in vars(Runner) if not name.startswith("_")} - {"run"}
    assert {block.kind for block in blocks(page)} <= kinds
    text = page.read_text("utf-8")
    assert text.count("```") == 2 * len(list(blocks(page)))
    outside = re.sub(r"```.*?```", "", text, flags=re.S)
    assert re.findall(r"^    (?:fastdp|import|from) .*", outside, re.M) == []
