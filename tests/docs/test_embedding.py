"""The scheduler's task of docs/guide/embedding.md, run as it is printed there."""

import re
from pathlib import Path

import pytest

import fastdp

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
