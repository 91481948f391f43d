"""`fastdp verify DIR`: does a released folder hold what its statement says, and nothing else?

It recomputes epsilon from the statement's own figures, checks the hash of every file, and refuses files that
are not for release: anything the statement does not list, and anything that is not one of the kinds a run
releases.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from ..errors import LedgerError, RunError
from ..privacy import statement as statements
from ..privacy.ledger import Ledger

# The first part of a released file's path. Everything else belongs in DIR.private.
RELEASABLE = (
    "synthetic.parquet",
    "synthetic",
    "synthetic.*",
    "model.fastdp",
    "schema.json",
    "measurements*",
    "tables",
    "tables.*",
    "*.released.parquet",
)
PRIVATE = (
    "*timing*",
    "reading.json",
    "*.log",
    "log*",
    "*report*",
    "*truth*",
    "*private*",
    "*ledger*",
    "*.db",
    "*.head",
    "state.json",
)


@dataclass(frozen=True)
class Verdict:
    """What `verify` found: the recomputed promise, the files checked, and what is wrong (empty if nothing
    is)."""

    folder: Path
    epsilon: float
    delta: float
    private: bool
    files: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(folder: str | os.PathLike, ledger: Ledger | str | os.PathLike | None = None) -> Verdict:
    """Check a run folder; RunError lists everything that is wrong. With a ledger, the run must be in it too.

    A folder of several epsilons (`eps-1/`, `eps-10/`) is checked part by part if it has no statement of its
    own.
    """
    verdict = inspect(folder, ledger)
    if verdict.problems:
        listed = "".join(f"\n  - {p}" for p in verdict.problems)
        raise RunError(f"{verdict.folder} does not verify:{listed}")
    return verdict


def inspect(folder: str | os.PathLike, ledger: Ledger | str | os.PathLike | None = None) -> Verdict:
    """As `verify`, but what is wrong is in the verdict's `problems`."""
    folder = Path(folder)
    if not folder.is_dir():
        raise RunError(f"{folder} is not a folder")
    if not (folder / statements.NAME).is_file():
        return _inspect_parts(folder, ledger)
    statement = read_statement(folder)
    found = list(statements.problems(statement))
    found += _schema_problems(statement)
    found += _file_problems(folder, statement.get("files"))
    found += _choice_problems(folder, statement)
    for part in sorted(folder.glob("eps-*")):
        if part.is_dir():
            found += [f"{part.name}: {p}" for p in inspect(part).problems]
            found += _part_problems(statement, part)
    if ledger is not None:
        found += _ledger_problems(ledger, statement)
    return Verdict(
        folder,
        _number(statement.get("epsilon")),
        _number(statement.get("delta")),
        statement.get("private") is True,
        len(statement.get("files") or ()),
        tuple(found),
    )


def read_statement(folder: str | os.PathLike) -> dict:
    """The folder's `privacy.json`; RunError if it cannot be read."""
    path = Path(folder, statements.NAME)
    try:
        statement = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_once)
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise RunError(f"{path} is not JSON") from None
    if not isinstance(statement, dict):
        raise RunError(f"{path} is not a statement")
    return statement


def _once(pairs: list[tuple[str, object]]) -> dict:
    """A JSON object whose names are all different: of two numbers of one name, readers see different ones."""
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name is there twice")
    return dict(pairs)


def _part_problems(joint: dict, part: Path) -> list[str]:
    """Where the statement of one epsilon's folder says anything else than the joint one about what was
    promised."""
    mine = read_statement(part)
    told = [k for k in ("epsilon", "delta", "mu", "private", "unit", "parts") if mine.get(k) != joint.get(k)]
    return [f"{part.name}: its statement and the joint one differ in {', '.join(told)}"] if told else []


def _inspect_parts(folder: Path, ledger) -> Verdict:
    parts = sorted(p for p in folder.glob("eps-*") if p.is_dir())
    others = sorted(p.name for p in folder.iterdir() if p not in parts)
    if not parts:
        raise RunError(f"{folder} has no {statements.NAME}; it is not a run's folder")
    verdicts = [inspect(p, ledger) for p in parts]
    found = [f"{v.folder.name}: {p}" for v in verdicts for p in v.problems]
    found += [f"{name} is not for release" for name in others]
    first = verdicts[0]
    if any((v.epsilon, v.delta) != (first.epsilon, first.delta) for v in verdicts):
        found.append("the parts' statements disagree about the joint epsilon")
    private = all(v.private for v in verdicts)
    return Verdict(folder, first.epsilon, first.delta, private, sum(v.files for v in verdicts), tuple(found))


def _file_problems(folder: Path, listed) -> list[str]:
    if not isinstance(listed, dict):
        return ["the statement lists no files"]
    found, seen = [], set()
    for name, path in statements.files_of(folder):
        seen.add(name)
        if path.is_symlink() or not path.is_file():
            found.append(f"{name} is not a plain file")
            continue
        if not releasable(name):
            found.append(f"{name} is not for release; it belongs in {folder.name}.private")
        elif name not in listed:
            found.append(f"{name} is not in the statement")
        elif statements.file_hash(path) != listed[name]:
            found.append(f"{name} was changed: its hash is not the stated one")
    found += [f"{name} is in the statement but not in the folder" for name in listed if name not in seen]
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() and path.is_dir():
            found.append(f"{path.relative_to(folder)} is a link")
    return found


def releasable(name: str) -> bool:
    """Whether a file of this name (relative to the run's folder) is of a kind that a run releases."""
    parts = name.split("/")
    if fnmatch(parts[0], "eps-*") and len(parts) > 1:
        parts = parts[1:]
        if parts == [statements.NAME]:
            return True
    if any(fnmatch(part.lower(), pattern) for part in parts for pattern in PRIVATE):
        return False
    return any(fnmatch(parts[0], pattern) for pattern in RELEASABLE)


def _schema_problems(statement: dict) -> list[str]:
    """The fields that the published schema requires; a full check needs a JSON-schema validator."""
    required = statements.load_schema()["required"]
    return [f"the statement lacks {name!r}" for name in required if name not in statement]


def _choice_problems(folder: Path, statement: dict) -> list[str]:
    """Where a clip was chosen from another histogram than the one that lies among the released measurements."""
    try:
        parts = statement["parts"]
        mine = parts[statement.get("part", 0)] if len(parts) == 1 or "part" in statement else {}
        if "clip_choice" not in mine or not (folder / "measurements.json").is_file():
            return []
        label, told = mine["clip_choice"]["release"], mine["clip_choice"]["users"]
        entries = json.loads((folder / "measurements.json").read_text(encoding="utf-8"))["measurements"]
        numbers = [m["measurement"] for m in entries if m["label"] == label]
        same = len(numbers) == 1 and _values(folder / "measurements.parquet", numbers[0]) == told
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        return [f"the histogram that the clip was chosen from cannot be read ({type(error).__name__})"]
    return [] if same else ["the clip was chosen from another histogram than the measurements hold"]


def _values(path: Path, number: int) -> list[float]:
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["measurement", "value"], filters=[("measurement", "=", number)])
    return table["value"].to_pylist()


def _ledger_problems(ledger, statement: dict) -> list[str]:
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    try:
        book.verify(statement)
    except LedgerError as error:
        return [f"ledger: {error}"]
    return []


def _number(value) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
