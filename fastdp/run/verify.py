"""Checks that a released folder agrees with its statement, and holds nothing else (`fastdp verify
DIR`).

It recomputes epsilon from the statement's own figures; checks the hash of every file; refuses files
that are not for release. If all files have the stated hashes, it compares measurements, schema and
model with the statement, and rows with the schema's constraints. With the run's ledger it also
compares the hash of every noisy answer, and of the statement itself, with what the ledger holds.
Without the ledger, a folder that was forged consistently cannot be distinguished from a true one,
and the verdict says so.

A folder may be hostile: whatever it contains, no exception other than RunError is raised.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from .._util import stores
from .._util.files import as_path
from ..errors import LedgerError, RunError, UsageError
from ..privacy import recompute, statement as statements
from ..privacy.ledger import Ledger
from . import answers_check, folder_check
from .folder_check import guarded
from .linked_check import linked_problems
from .linked_result import LinkedRun
from .result import Run
from .statement_check import recomputed_problems, same_build
from .strict_json import read_json
from .tables_check import table_problems

UNPROVED = (
    "nothing in the folder proves which program and second accountant ran, the mechanism's settings "
    "and its own notes, which public data was used, that more noise was added than the charges "
    "need, and that the ledger's budget counts all other runs; with the run's ledger (ledger=) "
    "these are at least what the run published"
)
"""Noted where no ledger was given: what `verify` cannot prove from the folder alone."""
WITHOUT_LEDGER = (
    "no ledger was given: a folder that was forged consistently (true counts in place of noisy "
    "ones, private rows in place of synthetic ones, new hashes) cannot be distinguished from a true "
    "one; give the run's ledger, ledger="
)
"""Noted where no ledger was given: which forgeries go unnoticed."""
OTHER_BUILD = (
    "the statement names another build of fastdp than this one, so its fixed texts were not "
    "compared; its figures were"
)
UNSEEN = (
    "the ledger holds no hash of this folder's statement; its noisy answers were compared, its "
    "other files not"
)
UNREAD = "the files are not those that the statement lists, so their contents were not read"
MOST_TEXT = 600  # characters shown of a text out of a folder that may be hostile
ROWS = ("synthetic", "synthetic.parquet")
OF_A_PART = ("measurements*", "*.released.pq", "*.released.parquet", "model.fastdp")
"""Files that are compared with the releases of one part."""

# The first part of a released file's path. Everything else belongs in DIR.private.
RELEASABLE: tuple[str, ...] = (
    "synthetic",
    "synthetic.*",
    "model.fastdp",
    "schema.json",
    "measurements*",
)
RELEASABLE += ("tables", "tables.*", "*.released.pq", "*.released.parquet")
PRIVATE: tuple[str, ...] = (
    "*timing*",
    "*report*",
    "*truth*",
    "*private*",
    "*ledger*",
    "log*",
    "*.log",
)
PRIVATE += ("*.db", "*.head", "notes.txt", "reading.json", "state.json")


@dataclass(frozen=True)
class Verdict:
    """What `verify` found: the recomputed promise, the files checked, what is wrong (empty if
    nothing is), and what the check could not show. `user_epsilon`: of a series, what one user in
    every period released so far is protected by; `epsilon` is that of the run. `folder`: a path, or
    the address of a store."""

    folder: Path | str
    epsilon: float
    delta: float
    private: bool
    files: int
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    user_epsilon: float | None = None

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(
    folder: str | os.PathLike | Run | LinkedRun, ledger: Ledger | str | os.PathLike | None = None
) -> Verdict:
    """Check a run folder; RunError lists everything that is wrong. With a ledger, the run must be
    in it too. An address in an object store is copied to a temporary folder first."""
    verdict = inspect(folder, ledger)
    if verdict.problems:
        listed = "".join(f"\n  - {p}" for p in verdict.problems)
        raise RunError(f"{_plain(str(verdict.folder))} does not verify:{listed}")
    return verdict


def inspect(
    folder: str | os.PathLike | Run | LinkedRun, ledger: Ledger | str | os.PathLike | None = None
) -> Verdict:
    """As `verify`, but what is wrong is in the verdict's `problems`."""
    if isinstance(folder, Run | LinkedRun):
        if folder.out is None:
            raise UsageError("this run is in memory; verify needs a run folder, which out= makes")
        folder = folder.out
    if stores.is_store(folder):
        address = str(folder)
        with tempfile.TemporaryDirectory(prefix="fastdp-verify-") as copy:
            found = inspect(stores.fetched(address, Path(copy)), ledger)
        return replace(found, folder=stores.shown(address))
    folder = as_path(folder, "a run folder")
    if not folder.is_dir():
        raise RunError(f"{folder} is not a folder")
    book = ledger if isinstance(ledger, Ledger) or ledger is None else Ledger(ledger)
    verdict = _inspect(folder, book, inner=False)
    notes = verdict.notes if book is not None else (*verdict.notes, WITHOUT_LEDGER, UNPROVED)
    problems = dict.fromkeys(_plain(text) for text in verdict.problems)
    return replace(verdict, problems=tuple(problems), notes=tuple(dict.fromkeys(notes)))


def _inspect(folder: Path, ledger: Ledger | None, inner: bool) -> Verdict:
    """`inner`: the folder belongs to one part, so it may not contain folders of others."""
    parts = [] if inner else statements.part_folders(folder)
    if not os.path.lexists(folder / statements.NAME):
        raise RunError(f"{folder} is not a run folder: it has no {statements.NAME}")
    statement = read_statement(folder)
    problems = list(recompute.problems(statement))
    changed = guarded("the list of files", lambda: _file_problems(folder, statement.get("files")))
    problems += changed
    required = statements.load_schema()["required"]
    problems += [f"the statement has no {name!r}" for name in required if name not in statement]
    notes: list[str] = []
    if changed:
        notes.append(UNREAD)
    else:
        problems += _content_problems(folder, statement, ledger, notes)
        notes += [] if same_build(statement) else [OTHER_BUILD]
    for part in parts:
        verdict = _inspect(part, ledger, inner=True)
        problems += [f"{part.name}: {p}" for p in verdict.problems]
        problems += _part_problems(statement, part)
        notes += verdict.notes
    if ledger is not None:
        problems += guarded(
            "the ledger's entry", lambda: _ledger_problems(folder, statement, ledger, notes)
        )
    epsilon, delta = (_number(statement.get(name)) for name in ("epsilon", "delta"))
    files = statement.get("files")
    private = statement.get("private") is True
    number = len(files) if isinstance(files, dict) else 0
    user = _user_epsilon(statement)
    return Verdict(
        folder=folder,
        epsilon=epsilon,
        delta=delta,
        private=private,
        files=number,
        problems=tuple(problems),
        notes=tuple(notes),
        user_epsilon=user,
    )


def read_statement(folder: str | os.PathLike) -> dict:
    """The folder's `privacy.json`; RunError if it cannot be read."""
    path = as_path(folder, "a run folder") / statements.NAME
    statement = read_json(path)
    if not isinstance(statement, dict):
        raise RunError(f"{path} is not a statement")
    return statement


def _part_problems(joint: dict, part: Path) -> list[str]:
    """The differences between the promises in the statement of one part's folder and in the joint
    statement."""
    own = read_statement(part)
    names = [
        k
        for k in ("epsilon", "delta", "mu", "private", "unit", "parts")
        if own.get(k) != joint.get(k)
    ]
    if names:
        return [f"{part.name}: its statement differs from the joint one in {', '.join(names)}"]
    return []


def _own_part(statement: Mapping) -> tuple[int, Mapping] | None:
    """(number, part) of the statement that this folder's data belongs to; None for a joint folder
    of several parts."""
    parts = statement["parts"]
    if len(parts) != 1 and "part" not in statement:
        return None
    number = statement.get("part", 0)
    if type(number) is not int or not 0 <= number < len(parts):
        raise RunError("the statement names a part that it does not contain")
    return number, parts[number]


def _without_part(names: Iterable[str]) -> Iterator[str]:
    """A problem where a folder of no one part has answers or a model: nothing would compare them with
    releases."""
    if any(fnmatch(name, pattern) for name in names for pattern in OF_A_PART):
        yield "the folder has answers or a model, but its statement does not say of which part"


def _content_problems(
    folder: Path, statement: Mapping, ledger: Ledger | None, notes: list[str]
) -> list[str]:
    """Measurements, schema and model against the statement and, for the answers, against the
    ledger. What could not be checked is added to `notes`."""
    with_rows = any(os.path.lexists(folder / name) for name in ROWS)

    def answers() -> Iterator[str]:
        own = _own_part(statement)
        if own is None:
            yield from _without_part(os.listdir(folder))
            return
        number, part = own
        if not part["releases"] and (with_rows or os.path.lexists(folder / "model.fastdp")):
            yield (
                "the folder has rows or a model, but the statement lists no release that they could "
                "come from"
            )
        entries, texts = answers_check.measurements_of(folder, part["releases"])
        yield from texts
        if not texts:
            yield from answers_check.choice_problems(part, entries)
            if ledger is not None:
                entry = _entry(ledger, statement)
                yield from answers_check.ledger_answer_problems(
                    entry, number, part["releases"], entries
                )

    def model() -> Iterator[str]:
        own = _own_part(statement)
        if own is not None:
            yield from folder_check.model_problems(folder, statement, own[1]["releases"])

    def tables() -> Iterator[str]:
        own = _own_part(statement)
        if own is not None:
            yield from table_problems(folder, own[1]["releases"])

    def numbers() -> Iterator[str]:
        own = _own_part(statement)
        if own is not None:
            entry = None if ledger is None else _entry(ledger, statement)
            yield from folder_check.asked_problems(folder, statement, own[0], entry)

    def found() -> Iterator[str]:
        entry = None if ledger is None else _entry(ledger, statement)
        yield from folder_check.found_problems(folder, statement, entry)

    def constraints() -> Iterator[str]:
        if with_rows:
            yield from folder_check.constraint_problems(folder, notes)

    checks: dict[str, Callable[[], Iterable[str]]] = {
        "the statement": lambda: recomputed_problems(folder, statement),
        "the measurements": answers,
        "what was found": found,
        "schema.json": lambda: folder_check.schema_problems(folder, statement),
        "tables.json": lambda: linked_problems(folder),
        "the constraints": constraints,
        "model.fastdp": model,
        "the numbers": numbers,
        "the tables": tables,
    }
    return [text for what, check in checks.items() for text in guarded(what, check)]


def _file_problems(folder: Path, listed: Any) -> Iterator[str]:
    """Files that are missing, changed, not listed, or not for release."""
    if not isinstance(listed, dict):
        yield "the statement lists no files"
        return
    seen = set()
    for name, path in statements.files_of(folder):
        seen.add(name)
        if path.is_symlink() or not path.is_file():
            yield f"{name} is not a plain file"
        elif not releasable(name):
            yield f"{name} is not for release; it belongs in {folder.name}.private"
        elif name not in listed:
            yield f"{name} is not in the statement"
        elif statements.file_hash(path) != listed[name]:
            yield f"{name} was changed: its hash differs from the stated one"
    for name in listed:
        if name not in seen:
            yield f"{name} is in the statement but not in the folder"
    for base, folders, _ in os.walk(folder):
        for name in sorted(folders):
            if os.path.islink(os.path.join(base, name)):
                yield f"{os.path.relpath(os.path.join(base, name), folder)} is a link"


def releasable(name: str) -> bool:
    """Whether a file of this name (relative to the run's folder) is of a kind that a run
    releases."""
    parts = name.split("/")
    if len(parts) > 1 and any(fnmatch(parts[0], pattern) for pattern in statements.PART_FOLDERS):
        parts = parts[1:]
        if parts == [statements.NAME]:
            return True
    if any(fnmatch(part.lower(), pattern) for part in parts for pattern in PRIVATE):
        return False
    return any(fnmatch(parts[0], pattern) for pattern in RELEASABLE)


def _ledger_problems(
    folder: Path, statement: Mapping, ledger: Ledger, notes: list[str]
) -> list[str]:
    """Problems where the ledger does not hold this run, its charges, or the hash of this
    statement."""
    try:
        ledger.verify(statement)
        published = _entry(ledger, statement)["published"]
    except LedgerError as error:
        return [f"ledger: {error}"]
    if not published:
        notes.append(UNSEEN)
    elif statements.file_hash(folder / statements.NAME) not in published:
        return [f"ledger: {statements.NAME} differs from the statement that the run published"]
    return []


def _entry(ledger: Ledger, statement: Mapping) -> Mapping:
    name = statement["ledger"]["run"]
    entries = [entry for entry in ledger.entries() if entry["run"] == name]
    if not entries:
        raise LedgerError(f"the ledger has no run {name!r}")
    return entries[0]


def _plain(text: str) -> str:
    """The text made safe for a terminal: no control characters, no invalid characters, a limited
    length."""
    shown = text.encode("utf-8", "backslashreplace").decode()
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return shown if len(shown) <= MOST_TEXT else shown[:MOST_TEXT] + " ..."


def _user_epsilon(statement: Mapping) -> float | None:
    numbers = statement.get("protection")
    user = numbers.get("user") if isinstance(numbers, Mapping) else None
    return _number(user.get("epsilon")) if isinstance(user, Mapping) else None


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
