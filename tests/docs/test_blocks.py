"""Every code block of README and docs/ runs, in its page's order, and prints what is shown under it."""

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
NOT_RUN = 4
"""At most so many blocks are not run, each with its reason in the page."""


def tutorial(_):
    assert Path("run.private/report.html").stat().st_size > 10_000
    assert "LEARNT" in Path("draft.toml").read_text()
    assert not Path("again").exists()
    true, run, sure = csv.read_csv("flights.csv"), fastdp.load_run("run"), {"level": 0.9999}
    (late,) = run.answer("share", where={"dep_delay": (60, None)}, **sure).to_pylist()
    assert late["low"] <= np.mean(np.nan_to_num(true["dep_delay"].to_numpy()) >= 60) <= late["high"]
    for line in run.answer("count", "origin", **sure).to_pylist():  # a forgotten clip would lose half
        assert line["low"] <= pc.sum(pc.equal(true["origin"], line["origin"])).as_py() <= line["high"]


def retention(names):
    """The figures of the page are those of its code: within five standard deviations, rounded."""
    page = next(p for p in PAGES if p.name == "users.md").read_text("utf-8")
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if " ± " in line]
    assert [what for what, *_ in lines] == list(names["found"]["truth"])
    for what, *cells in lines:
        for cell, found in zip(cells, names["found"].values(), strict=True):
            mean, _, deviation = cell.partition(" ± ")
            room = 5 * max(float(deviation), 0.01) if deviation else 0
            assert abs(float(mean) - found[what]) <= 0.0051 + room, (what, cell)


NEEDS = {"embedding.md": "duckdb", "databases.md": "duckdb"}
"""A package of `make test-all` that a page uses."""
AFTER = {"own-table.md": tutorial, "users.md": retention}
"""What must hold after a page, in its folder and of the names of its code."""


@pytest.fixture(scope="session")
def common(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    tables.make(folder)
    return folder


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.name)
def test_blocks_run_in_their_order(page, common, tmp_path, monkeypatch):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name], reason=f"{NEEDS[page.name]} is not installed")

    def begin(folder):
        shutil.copytree(common, folder)  # not links: a page may write over a file
        monkeypatch.chdir(folder)
        return tables.BESIDE.get(page.name, lambda _: {})(folder)

    runner = Runner(begin(tmp_path / "0"), tables.WORDS.get(page.name, {}), tables.FEWER)
    for number, block in enumerate(blocks(page), 1):
        if block.note("in a new folder") is not None:
            runner.names.update(begin(tmp_path / str(number)))
        if block.note("not run") is None:
            try:
                runner.run(block)
            except Exception as error:
                raise AssertionError(f"{page.name}, line {block.line}: {error}") from error
    AFTER.get(page.name, lambda _: None)(runner.names)


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


# The scheduler's task of docs/guide/embedding.md, run as it is printed there.


TEXT = (Path(__file__).parents[2] / "docs" / "guide" / "embedding.md").read_text("utf-8")


class Context:
    """What a scheduler hands to a task."""

    def __init__(self, attempt=1, stop_at=None):
        self.attempt, self.stop_at, self.cores = attempt, stop_at, 2
        self.beats, self.gave_up = [], []

    def on_cancel(self, call):
        self.cancel = call

    def heartbeat(self, stage, fraction):
        self.beats.append((stage, fraction))
        if stage == self.stop_at:
            self.cancel()

    def give_up(self, why):
        self.gave_up.append(why)


@pytest.fixture(scope="module")
def task():
    names = {}
    exec(re.search(r"```python\n(.*?)```", TEXT, re.S)[1], names)
    return names["synthesize_table"]


def test_the_documented_task_survives_cancellation_retry_and_an_exhausted_budget(task, tmp_path):
    source, public = fastdp.simulate.taxi(20_000, seed=1), fastdp.simulate.taxi(20_000, seed=2, year=2019)
    fastdp.Ledger(tmp_path / "budget.db").open("trips-1", epsilon=1.2, delta=2.5e-5)
    with pytest.raises(fastdp.errors.Cancelled):
        task(Context(stop_at="fit"), source, public, tmp_path, 1)
    assert not (tmp_path / "trips-1").exists()
    again = Context(attempt=2)
    done = task(again, source, public, tmp_path, 1)
    assert done["rows"] > 0 and done["epsilon"] <= 1.0 + 1e-9
    assert again.beats[-1][1] == pytest.approx(1.0)
    assert fastdp.verify(tmp_path / "trips-1", ledger=tmp_path / "budget.db").ok
    (tmp_path / "trips-1").rename(tmp_path / "elsewhere")
    over = Context()
    with pytest.raises(fastdp.errors.BudgetError):
        task(over, source, public, tmp_path, 1)
    assert over.gave_up
