"""Shared by several commands: JSON on standard output, and the refusal of a weak promise without
--yes."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._util.files import as_path, local_path, scheme_of, source_path
from .._util.stores import is_store
from ..errors import SchemaError, UsageError
from ..tables.lakehouse import names_table
from . import waiting
from .parser import HELP

if TYPE_CHECKING:
    from ..schema.dialect import Dialect

STAGES = HELP["stages"]
"""What a run does in each of its stages."""

_SWITCHES = ("resume", "ignore_empty_columns", "late")
"""Parameters that are named as `NAME=True` in texts of the library."""
_NAMED = (
    "archetypes basis clip dataset domain drop engine form important ledger max_cells memory numbers "
    "out partitions period previous private_dir public report rows schema seed series user"
).split()
"""Parameters that are named as `NAME=` or `NAME='value'`."""
_PARAMETER = re.compile(
    rf"(?<![\w/'\"])(?:({'|'.join(_SWITCHES)})=True|({'|'.join(_NAMED)})="
    r"(?:['\"](\w+)['\"])?)(?![\w'\"])"
)
_DIALECT = re.compile(r'\bdialect=\{"(\w+)": ("[^"]*")\}')


def as_options(text: str) -> str:
    """A text of the library, which names parameters of Python (`resume=True`, `domain='private'`),
    with the command line's options in their place."""
    text = _DIALECT.sub(lambda m: "--dialect " + shlex.quote(f"{m[1]} = {m[2]}"), text)

    def option(m: re.Match[str]) -> str:
        name = "as" if m[2] == "form" else (m[1] or m[2]).replace("_", "-")
        return f"--{name} {m[3]}" if m[3] else f"--{name}"

    return _PARAMETER.sub(option, text)


def check_paths(*data: str | None, schema: str | None = None) -> None:
    """Raise DataError or SchemaError if a path does not exist, before anything heavy is
    imported."""
    for path in data:
        if path is None or path.startswith("table:") or names_table(path) or is_store(path):
            continue
        source_path(path)
    if schema is not None:
        file = as_path(schema, "schema=")
        if file.suffix and not file.exists():
            raise SchemaError(f"there is no schema file {schema!r}")


def named_source(kind: str, data: Sequence[str]) -> Any:
    """The source that `--source` names, of DATA as it is written; a plug-in is imported here."""
    from ..tables.sources.source import source

    if len(data) != 1:
        raise UsageError(f"--source {kind}: expected one DATA, which the source reads as it likes")
    return source(kind, data[0])


def named_sources(kind: str | None, tables: Mapping[str, str]) -> dict[str, Any]:
    """The sources of linked tables: their files, or what `--source` makes of each."""
    if kind is None:
        return dict(tables)
    return {name: named_source(kind, [value]) for name, value in tables.items()}


def is_url(text: str) -> bool:
    """Whether it is a URL that does not name a file of this machine."""
    return scheme_of(local_path(text)) is not None


def warn(text: str) -> None:
    """Print a line on standard error."""
    waiting.clear()
    print(f"fastdp: {printable(text)}", file=sys.stderr)


def say(text: Any) -> None:
    """Print a text on standard output."""
    waiting.clear()
    print(printable(str(text)))


def printable(text: str) -> str:
    """The text with control characters as escape sequences, except line feeds and tabs. Names and
    notes come from files of others, and must not move the cursor of a terminal."""
    shown = (
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )
    return "".join(shown)


def emit(value: Any) -> None:
    """Print a value on standard output, as JSON."""
    waiting.clear()
    print(json.dumps(value, indent=1, default=str))


def print_result(value: Any, text: Any, as_json: bool) -> None:
    """Print what a command found: the value with --json, else the text."""
    if as_json:
        emit(value)
    else:
        say(text)


def weak_promises(epsilons: Sequence[float | None], delta: float | None) -> list[str]:
    """Texts that say why the promise is weak at one of these epsilons with this delta; empty if it
    is not."""
    from ..privacy.statement import weak_promise

    return list(
        dict.fromkeys(text for e in epsilons for text in weak_promise(e or 0.0, delta or 0.0))
    )


def refusals(epsilons: Sequence[float], delta: float) -> list[str]:
    """Texts that say why runs at these epsilons would be refused: the error of the noise sampler,
    which adds to delta, would be too large."""
    from ..errors import PrivacyError
    from ..privacy.sampler_distance import check_sampler

    texts = []
    for epsilon in epsilons:
        try:
            check_sampler(epsilon, delta, "fastdp would refuse such a run")
        except PrivacyError as error:
            texts.append(str(error))
    return texts


def ask_first(epsilons: Sequence[float | None], delta: float | None, yes: bool) -> None:
    """Raise UsageError if the promise would be weak and --yes was not given; with --yes, a
    warning."""
    if delta is not None and not 0 <= delta < 1:
        raise UsageError(
            f"--delta must lie in [0, 1), got {delta:g}; take far below 1 / number of people"
        )
    for text in weak_promises(epsilons, delta):
        if not yes:
            raise UsageError(f"{text}. Choose smaller numbers, or confirm with --yes")
        warn(f"warning: {text}")


def dialect_of(text: str | None) -> Dialect | None:
    """The dialect that the option `--dialect` describes; None if it was not given."""
    from ..schema.dialect import Dialect

    return None if text is None else Dialect.from_text(text)


def sibling_path(data: str, suffix: str) -> Path:
    """A path in the same folder as the data (a file, folder or glob), with the data's name and this
    suffix."""
    path = Path(local_path(data))
    while any(c in path.name for c in "*?["):
        path = path.parent
    if path.name in ("", "..", "."):
        path = path.resolve()
    return path.with_name((path.name if path.is_dir() else path.stem or "data") + suffix)


def schema_beside(data: str) -> str | None:
    """The schema file in the same folder as the data and with the same name; None if there is
    none."""
    return next(
        (str(p) for p in (sibling_path(data, ".toml"), sibling_path(data, ".json")) if p.exists()),
        None,
    )
