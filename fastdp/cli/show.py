"""Output of the command line: progress on a terminal or in a log, tables, summaries."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import events, waiting
from .common import STAGES, printable, say

if TYPE_CHECKING:
    from .._util.progress import Progress
    from ..run.synthesize import Run


LOG_SECONDS = 30
"""A log gets a line for each stage, and another one each time that a stage goes on for this long.
"""


@contextmanager
def progress_for(silent: bool, form: str) -> Iterator[Callable[[Progress], None] | None]:
    """A progress callback: events if the form is "json". Else, on a terminal, a bar with the time left
    if rich is installed, or a line that is written anew; in a log a line per stage. None if silent."""
    waiting.stop()
    if form == "json":
        with events.noted():
            yield events.reporter()
    elif silent:
        yield None
    elif sys.stderr.isatty() and find_spec("rich") is not None:
        with _bar() as callback:
            yield callback
    elif sys.stderr.isatty():
        with _ticking() as callback:
            yield callback
    else:
        yield _lines()


def say_starting(silent: bool, form: str) -> None:
    """The first sign of life of a run, before anything is imported that takes long."""
    if silent or form == "json":
        return
    if sys.stderr.isatty():
        # the next text takes its place
        print("fastdp: starting", end="\r", file=sys.stderr, flush=True)
    else:
        print(_stage_line(0.0, "starting"), file=sys.stderr, flush=True)


def _stage_line(seconds: float, text: str) -> str:
    return f"fastdp {seconds:7.1f} s  {text}"


def _lines() -> Callable[[Progress], None]:
    """A line for each stage, and another one every `LOG_SECONDS` of a stage."""
    seen: set[str] = set()
    at = 0.0

    def show_stage(p: Progress) -> None:
        nonlocal at
        name = (f"{p.run}: " if p.run else "") + doing(p)
        if name not in seen or p.seconds >= at + LOG_SECONDS:
            done = f", {p.fraction:.0%} of the run done" if name in seen else ""
            print(_stage_line(p.seconds, name + done), file=sys.stderr)
            seen.add(name)
            at = p.seconds

    return show_stage


@contextmanager
def _ticking() -> Iterator[Callable[[Progress], None]]:
    """One line with the stage, the seconds and the part of the run that is done. It is written anew at
    every report, so a terminal is silent only as long as the run is."""
    line = ""

    def show_stage(p: Progress) -> None:
        nonlocal line
        name = (f"{p.run}: " if p.run else "") + doing(p)
        shown = f"{_stage_line(p.seconds, name)}, {p.fraction:.0%} of the run done"
        print(f"\r{shown:<{len(line)}}", end="", file=sys.stderr, flush=True)
        line = shown

    try:
        yield show_stage
    finally:
        if line:
            print(file=sys.stderr)


def doing(p: Progress) -> str:
    """What a run does now, in words."""
    return p.text or STAGES.get(p.stage, p.stage)


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from ..run.plan_result import duration

    columns = (
        TextColumn("{task.description:<32}"),
        BarColumn(bar_width=40),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0, left="")

        def show_progress(p) -> None:
            run = f"{p.run} " if p.run else ""
            left = p.seconds_left
            bar.update(
                task,
                completed=p.fraction,
                description=run + doing(p),
                left="" if left is None else f"about {duration(left)} left",
            )

        yield show_progress


def _from_here(path: Path | None) -> str:
    """The path as text, relative to the working folder if it is below it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path is not None and path.is_relative_to(here) else path)


def run_summary(out: Path, private: Path, runs: Sequence[Run], report: bool) -> None:
    """Print the files that were made, in the run folder and in the private one, and the privacy
    promise of each run."""
    for run in runs:
        part = run.privacy["parts"][run.privacy.get("part", 0)]
        asked = f"epsilon {part['asked']['epsilon']:g} at delta {part['asked']['delta']:g}"
        stated = float(run.privacy["epsilon"])
        if f"{stated:.4g}" != f"{part['asked']['epsilon']:.4g}":
            asked += f"; its statement says epsilon {stated:.4g}"
        say(f"{printable(_from_here(run.out))}  {asked}")
        if "clip_choice" in part:
            lost = run._facts.clipping.lost_text
            say(f"  clip {part['clip']}, chosen from a noisy histogram of rows per user: {lost}")
        if run.timings:
            say("  " + ", ".join(f"{n} {s:.1f} s" for n, s in run.timings.items()))
    p = runs[0].privacy
    if len(runs) > 1:
        say(f"Together epsilon {p['epsilon']:.4g}: whoever reads one may read the others.")
    say(f"Protected: {p['unit']['adjacency']}.")
    for note in p.get("notes", ()):
        say(f"Note: {note}.")
    for run in runs:
        for line in _verdict(run, len(runs) > 1):
            say(line)
    if (private / "reading.json").exists():
        say(f"Left-out rows and lines: {private}/reading.json (private: do not release).")
    if (private / "notes.txt").exists():  # its being there says nothing of the rows
        say(f"Notes for the owner: {private}/notes.txt (private: do not release).")
    say(f"Check it with: fastdp verify {shlex.quote(str(out))}")
    if report:
        name = "report.html" if (private / "report.html").exists() else "report-*.html"
        say(f"Look at {private}/{name} (it uses the private data: do not release).")


def _verdict(run: Run, several: bool) -> Iterator[str]:
    """The run's verdict, from its released numbers."""
    lines = run.verdict.lines
    if not lines:
        return
    yield (
        f"What {_from_here(run.out) if several else 'it'} can show (numbers with intervals: fastdp"
        " answer):"
    )
    yield from (f"  {line}" for line in lines)


def scores_table(results: Mapping[str, Any], out: Path | None) -> None:
    """Print the scores of every metric and, if they were computed, those of random samples of the
    truth."""
    from .._util.texttable import table
    from ..metrics.scores import FACTS

    samples = results.get("baselines") or {}
    rows = [["score", "synthetic", *samples]]
    for metric, scores in results.items():
        if metric in FACTS or not isinstance(scores, Mapping):
            continue
        for key, value in scores.items():
            if isinstance(value, float):
                beside = [(s.get(metric) or {}).get(key) for s in samples.values()]
                shown = (f"{v:.4g}" if isinstance(v, int | float) else "" for v in (value, *beside))
                rows.append([printable(f"{metric} {key}"), *shown])
    say("\n".join(table(rows)))
    original = results.get("original")
    if original:
        say(f"At worst, in the original values: {original['worst']['what']}.")
    say("These figures use the private data: do not release them.")
    if out is not None:
        say(f"Look at {out}")


def linked_table(results: Mapping[str, Any]) -> None:
    """Print the scores of linked tables: those of each table, then those of their links."""
    for name, own in results["tables"].items():
        say(name)
        scores_table(own, None)
    flat = {
        name: {
            "integrity": link["integrity"],
            "rows per parent, total variation": link["children"]["variation"],
            "pairs with the parent's columns, total variation": link["pairs"]["mean"],
        }
        for name, link in results["links"].items()
    }
    say("links")
    scores_table(flat, None)
