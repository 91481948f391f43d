"""Events of a run for programs: with `--progress json`, one JSON object per line on standard error.

Fields are stable: a reader may rely on those below, and ignores fields and events that it does not
know. Nothing in an event depends on private rows, except the time that passes and what noisy answers
decide. Every event has `event` and `format`.

| event | fields |
|---|---|
| start | fastdp (version), out, resume |
| note | text: a warning, such as what a private domain will not show |
| progress | stage, run, fraction, seconds, seconds_left |
| done | out, seconds, runs: [{out, epsilon, delta}] |
| error | kind, text, exit_code, charged, resumable |
| stopped | text, exit_code, charged, resumable |
"""

from __future__ import annotations

import itertools
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from .._util.progress import Progress
    from ..run.result import Run
    from ..run.status import RunStatus

FORMAT = 1
"""The number of this list of fields; it changes if a field is removed or gets another meaning."""
EVERY = 0.5
"""Seconds between two events of one stage, at least."""
FORMS = ("auto", "json")


def check_form(form: str) -> None:
    if form not in FORMS:
        raise UsageError(f"--progress: expected one of {', '.join(FORMS)}, got {form!r}")


def asked_for(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for events; it may be one that cannot be parsed."""
    pairs = itertools.pairwise(arguments)
    return "--progress=json" in arguments or ("--progress", "json") in pairs


def write(event: str, **fields: Any) -> None:
    """Write one event as a line, at once."""
    print(line_of(event, **fields), file=sys.stderr, flush=True)


def line_of(event: str, **fields: Any) -> str:
    return json.dumps({"event": event, "format": FORMAT, **fields}, default=str)


def start(out: Path, resume: bool) -> None:
    from .. import __version__

    write("start", fastdp=__version__, out=out, resume=resume)


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            write("note", text=record.getMessage().removeprefix("fastdp: warning: "))


@contextmanager
def noted() -> Iterator[None]:
    """A context in which warnings of the run are events, so that every line is JSON."""
    log = logging.getLogger("fastdp")
    handler = _Notes()
    passed_on = log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = passed_on


def reporter() -> Callable[[Progress], None]:
    """A callback that writes the beginning of each stage, then at most two events per second."""
    shown: tuple[str, str] = ("", "")
    at = 0.0

    def report(p: Progress) -> None:
        nonlocal shown, at
        if (p.run, p.stage) == shown and p.seconds < at + EVERY and p.fraction < 1:
            return
        shown = (p.run, p.stage)
        at = p.seconds
        left = p.seconds_left
        write(
            "progress",
            stage=p.stage,
            run=p.run,
            fraction=round(p.fraction, 4),
            seconds=round(p.seconds, 3),
            seconds_left=None if left is None else round(left, 3),
        )

    return report


def done(out: Path, runs: Sequence[Run], seconds: float) -> None:
    facts = [
        {"out": r.out, "epsilon": r.privacy["epsilon"], "delta": r.privacy["delta"]} for r in runs
    ]
    write("done", out=out, seconds=round(seconds, 3), runs=facts)


def failed(kind: str, text: str, exit_code: int, status: RunStatus | None) -> None:
    """The event of an error that ends the command."""
    write("error", kind=kind, text=text, exit_code=exit_code, **_state(status))


def stopped_line(text: str, exit_code: int, status: RunStatus | None) -> str:
    """The event of a signal that ends the command; whoever handles the signal writes it."""
    return line_of("stopped", text=text, exit_code=exit_code, **_state(status))


def _state(status: RunStatus | None) -> dict[str, bool]:
    """Whether a step was charged, and whether `--resume` continues the run."""
    if status is None:
        return {"charged": False, "resumable": False}
    charge = status.charge()
    charged = status.entered or status.published or (charge is not None and bool(charge.steps))
    folder = status.folder
    unfinished = folder is not None and (folder.private / "state.json").exists()
    resumable = folder is not None and unfinished and folder.stopped is None
    return {"charged": charged, "resumable": resumable}
