"""Progress: nothing is silent, the times of stages add up, and dealing users says so. Time is a fake
clock, so that no test depends on a machine."""

import json
import time
from importlib import import_module
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp._util.notebook_progress import SHORT, _Display
from fastdp._util.progress import BEAT, OTHER, Progress, Reporter
from fastdp.cli import events
from fastdp.errors import Cancelled, UsageError

plan_table = import_module("fastdp.run.plan_table")
evaluate = import_module("fastdp.report.evaluate")
progress = import_module("fastdp._util.progress")


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def wait(self, until):
        """A wait that the clock passes at once; true when it is `until`."""

        def ended(seconds):
            self.now += seconds
            return self.now >= until

        return ended


def test_nothing_is_silent_for_more_than_a_second(capsys):
    """A stage that reports nothing itself for 55 seconds: callbacks and JSON events go on."""
    clock = Clock()
    seen = []
    show = events.reporter()

    def callback(p):
        seen.append((p.seconds, p.stage, p.text))
        show(p)

    reporter = Reporter(callback, clock=clock)
    with reporter.stage("users", "finding how users repeat values"):
        reporter.beat(clock.wait(155.0))
    times = [0.0, *(seconds for seconds, _, _ in seen), 55.0]
    assert np.diff(times).max() <= 1.0 and BEAT <= 0.5
    assert {what for _, *what in map(list, seen) for what in [tuple(what)]} == {
        ("users", "finding how users repeat values")
    }
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    printed = [0.0, *(line["seconds"] for line in lines), 55.0]
    assert np.diff(printed).max() <= 1.0 and {line["stage"] for line in lines} == {"users"}


def test_the_times_of_stages_add_up_to_the_wall_time():
    clock = Clock()
    reporter = Reporter(clock=clock)
    clock.now += 1  # before the first stage
    with reporter.stage("read"):
        clock.now += 2
    with reporter.stage("measure"):
        clock.now += 3
        with reporter.stage("fit"):
            clock.now += 5
        with reporter.stage("users"):
            clock.now += 7
            with reporter.stage("fit"):
                clock.now += 11
    with reporter.stage("write"):
        with reporter.stage("sample"):
            clock.now += 13
        clock.now += 17
    clock.now += 19
    spent = reporter.spent("")
    assert spent == {"read": 2, "measure": 3, "fit": 16, "users": 7, "sample": 13, "write": 17}
    assert reporter.other() == 20 and sum(spent.values()) + reporter.other() == clock.now - 100


def test_after_an_inner_stage_the_outer_one_is_named_again():
    """What goes on is shown, not what ended: 22 seconds of measuring once read "fitting"."""
    seen = []
    reporter = Reporter(lambda p: seen.append((p.stage, p.text, p.fraction)), clock=Clock())
    with reporter.stage("measure", "measuring"):
        with reporter.stage("fit", "fitting the model"):
            pass
        reporter.repeat()
    assert [stage for stage, _, _ in seen] == ["measure", "fit", "measure", "measure"]
    assert seen[-1][1] == "measuring" and seen[-1][2] >= seen[1][2], "progress never goes back"


def test_an_error_of_the_callback_is_not_lost_in_the_thread_that_repeats_it():
    def callback(p):
        if p.seconds > 0:
            raise Cancelled("enough")

    clock = Clock()
    reporter = Reporter(callback, clock=clock)
    reporter.update("read", 0.0)
    reporter.beat(clock.wait(101.0))
    with pytest.raises(Cancelled, match="enough"):
        reporter.check()


def test_a_run_says_when_it_learns_about_users_deals_and_chooses_them(tmp_path):
    rows = fastdp.simulate.purchases(300, seed=2)
    schema = fastdp.Schema.from_dict(
        {
            "user": {"column": "customer", "max_rows": 8, "order": "month"},
            "columns": {
                "country": {"kind": "integer", "min": 0, "max": 7},
                "month": {"kind": "integer", "min": 0, "max": 3},
            },
        }
    )
    seen = []
    start = time.monotonic()
    run = fastdp.synthesize(
        rows,
        schema=schema,
        epsilon=4.0,
        delta=1e-6,
        out=tmp_path / "run",
        progress=lambda p: seen.append((p.stage, p.text)),
    )
    said = dict.fromkeys(seen)
    for stage, text in (
        ("users", "finding how users repeat values"),
        ("users", "asking about users"),
        ("ids", "dealing rows to users"),
        ("ids", "choosing users"),
    ):
        assert (stage, text) in said
    assert {"read", "users", "ids", OTHER} <= set(run.timings)
    elapsed = time.monotonic() - start
    stored = json.loads((tmp_path / "run.private" / "timings.json").read_text())["seconds"]["eps-4"]
    assert stored == run.timings and {"report", OTHER} <= set(stored)
    assert sum(stored.values()) <= elapsed  # a second counted twice would exceed it


def test_what_several_runs_share_is_counted_once():
    schema = fastdp.Schema.from_domain({"a": 3, "b": 2})
    codes = np.arange(60)
    rows = {"a": codes % 3, "b": codes % 2}
    one, two = fastdp.synthesize(
        pa.table(rows), "mst", epsilon=[1.0, 2.0], delta=1e-6, schema=schema
    )
    assert OTHER in two.timings and OTHER not in one.timings
    assert "read" in one.timings and "read" not in two.timings
    assert all(seconds >= 0 for run in (one, two) for seconds in run.timings.values())


@pytest.mark.parametrize("call", ["plan", "linked plan", "evaluate", "evaluate several"])
def test_calls_that_are_no_runs_say_what_they_do(call, monkeypatch):
    """On 100,000 rows they were silent for more than a second. Work that says nothing is told of as
    long as it lasts, and the end is told as well."""
    seen = []

    def slow(one):
        def call(*args, **options):
            time.sleep(0.1)  # five beats: only another thread can tell of it
            return one(*args, **options)

        return call

    rows = pa.table({"a": np.arange(300) % 3, "b": np.arange(300) % 4})
    schema = fastdp.Schema.from_domain({"a": 3, "b": 4})
    whole = {"kind": "integer", "max": 3}
    parent = {"key": "id", "columns": {"a": whole}}
    tables = {"p": parent, "c": {**parent, "parent": "p"}}
    linked = fastdp.LinkedSchema.from_dict({"tables": tables})
    monkeypatch.setattr(progress, "BEAT", 0.02)
    monkeypatch.setattr(plan_table, "plan_verdict", slow(plan_table.plan_verdict))
    monkeypatch.setattr(evaluate, "score", slow(evaluate.score))
    if call == "plan":
        fastdp.plan(schema, "mst", 1.0, 1e-6, rows=300, progress=seen.append)
    elif call == "linked plan":
        guess = {"p": 300, "c": 300}
        fastdp.plan(linked, "mst", 1.0, 1e-6, rows=guess, progress=seen.append)
    elif call == "evaluate":
        fastdp.evaluate(rows, rows, progress=seen.append)
    else:
        fastdp.evaluate(rows, {"one": rows, "two": rows}, progress=seen.append)
    assert seen[-1].fraction == 1 and seen[-1].text == "done"
    assert [p.fraction for p in seen] == sorted(p.fraction for p in seen)
    assert any(p.text == q.text for p, q in pairwise(seen)), "what takes long is told again"
    texts = " ".join(p.text for p in seen)
    named = {"linked plan": "planning c", "evaluate several": "two: comparing by original"}
    assert named.get(call, "") in texts


def test_a_callback_ends_a_call_that_is_no_run():
    def stop(p):
        raise Cancelled("enough")

    rows = pa.table({"a": [1, 2, 3]})
    with pytest.raises(Cancelled, match="enough"):
        fastdp.evaluate(rows, rows, progress=stop)
    with pytest.raises(UsageError, match="progress must be a function"):
        fastdp.plan(fastdp.Schema.from_domain({"a": 3}), "mst", 1.0, rows=9, progress=1)


def test_a_short_call_shows_no_bar_in_a_notebook():
    shown = []

    class Cell:
        def HTML(self, text):
            return text

        def display(self, text, display_id):
            shown.append(text)
            return self

    bar = _Display(Cell(), SHORT)
    bar(Progress("plan", 0.0, 0.0, "planning"))
    bar(Progress("plan", 1.0, SHORT / 2, "done"))
    assert shown == []
    bar(Progress("plan", 0.0, SHORT * 2, "planning"))
    assert len(shown) == 1 and "planning" in shown[0]
