"""The report and the diagnosis of a run, for the data's owner: made when the run is complete.

They read the true rows, take long and can fail for reasons of their own. The run folder is in its
place by then and nothing more is charged, so a failure costs the page alone. The error says what is
there and which call makes the page.
"""

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._util.files import write_atomic
from ..errors import FastdpError, ReportError
from ..tables.sources.source import Source
from .folder import RunFolder
from .spec import RunSpec
from .status import RunStatus


class Comparison(NamedTuple):
    """What a page compares: the true rows, by table for linked ones, and the folder of the run.
    `label`: of the run, where there are several."""

    truth: Any
    place: Path
    label: str = ""


class Failed(NamedTuple):
    """A file that could not be made, and why. `of`: the folder that a page is about, or the schema
    of a diagnosis."""

    what: str
    why: str
    of: Path
    file: Path


def write_owner_files(
    spec: RunSpec, source: Any, folder: RunFolder, compared: list[Comparison], done: Any
) -> None:
    """Write the report pages and the diagnosis next to a run folder that is in its place. If one
    fails the others are still made; then ReportError. `done`: what `synthesize` returns."""
    tried = [_report(one, folder) for one in compared]
    tried.append(diagnose(spec, source, folder))
    write_notes(spec, source, folder)
    failed = [one for one in tried if one is not None]
    if failed:
        error = ReportError(failure_text(spec.status, failed, _call))
        error.runs = done
        error.failed = failed
        raise error


def failure_text(
    status: RunStatus, failed: Sequence[Failed], command: Callable[[Failed], str]
) -> str:
    """What is charged and in place, what could not be made and why, and the command for each."""
    texts = [
        f"The {one.what} could not be made: {one.why}; make it alone with: {command(one)}"
        for one in failed
    ]
    return ". ".join([status.text("", ""), *texts])


def _call(one: Failed) -> str:
    """The call of Python that makes the file."""
    if one.what == "report":
        return f"fastdp.evaluate(DATA, {str(one.of)!r}, report={str(one.file)!r})"
    return f"fastdp.check(DATA, {str(one.of)!r})"


def _report(one: Comparison, folder: RunFolder) -> Failed | None:
    """Write the page of one run; returns what failed. It is the page that `fastdp.evaluate` makes of
    the same rows and the finished folder."""
    from ..report.evaluate import evaluate

    page = folder.private / (f"report-{one.label}.html" if one.label else "report.html")
    try:
        evaluate(one.truth, one.place, report=page)
    except Exception as error:  # whatever it is: the run is whole, and the error names the call
        return Failed("report", _why(error), one.place, page)
    page.chmod(0o600)  # the folder is for its owner alone already
    return None


def diagnose(spec: RunSpec, source: Any, folder: RunFolder) -> Failed | None:
    """Write what `fastdp.check` says of the source into the private folder, where it was asked for;
    returns what failed."""
    if not spec.options.diagnose:
        return None
    from ..metrics.check import check

    file = folder.private / "check.json"
    try:
        report = check(source, spec.schema, mechanism=None, threads=spec.options.threads)
        _write(file, json.dumps(report.to_dict(), indent=1))
        _write(folder.private / "check.txt", str(report))
    except Exception as error:  # as above
        return Failed("diagnosis", _why(error), folder.out / "schema.json", file)
    return None


def write_notes(spec: RunSpec, source: Any, folder: RunFolder) -> None:
    """Write the notes to the owner into the private folder, where the run could have some.

    Whether there are any depends on the true rows, and so does whether they could be made. So the file is
    there in any case, and neither an error nor an exit code tells."""
    from .owner_notes import NOTES, notes_text, owner_notes

    if not isinstance(source, Source):  # linked tables have public domains
        return
    try:
        notes = owner_notes(source, spec.asked, spec.schema, folder.private)
    except Exception as error:  # as above
        notes = [f"The notes could not be made: {_why(error)}; see fastdp check"]
    with contextlib.suppress(OSError):  # a full disk, say: the run is whole
        _write(folder.private / NOTES, notes_text(notes))


def _why(error: Exception) -> str:
    """What an error says, for a text of ours: texts of other libraries could quote a value."""
    if isinstance(error, FastdpError):
        return str(error).rstrip(".")
    reason = getattr(error, "strerror", None) if isinstance(error, OSError) else None
    return reason or f"{type(error).__name__} (please report this error in fastdp)"


def _write(path: Path, text: str) -> None:
    write_atomic(path, f"{text}\n".encode(), 0o600)
