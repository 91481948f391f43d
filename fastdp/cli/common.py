"""Shared by several commands: options, JSON on standard output, and the refusal of a weak promise without
--yes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._util.files import check_source_path
from ..errors import SchemaError, UsageError

if TYPE_CHECKING:
    from ..schema.dialect import Dialect

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Yes = Annotated[
    bool, typer.Option("--yes", help="Go on although epsilon or delta are so large that little is protected.")
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
SchemaOption = Annotated[
    str | None, typer.Option("--schema", "-s", help="Schema: a .toml or .json file, or a built-in name.")
]
Mechanism = Annotated[
    str,
    typer.Option(
        "--mechanism", "-m", help="A mechanism (auto, adagrid, ...), a recipe's name, or a recipe's path."
    ),
]
Delta = Annotated[float, typer.Option("--delta", "-d", help="Delta; far below 1 / number of people.")]
Epsilons = Annotated[
    str, typer.Option("--epsilon", "-e", help="Epsilon, or several: 1,10 (charged together).")
]
DomainOption = Annotated[
    str | None,
    typer.Option(
        "--domain", help="private: no schema; the run finds values, bounds and bins (docs/guide/domains.md)."
    ),
]
DialectOption = Annotated[
    str | None,
    typer.Option(
        "--dialect", help='How text files are written: \'delimiter = ";", encoding = "latin-1"\', ...'
    ),
]
Clip = Annotated[
    str | None,
    typer.Option(
        "--clip", help="Rows of one user that count fully, or private: chosen in the run (the default)."
    ),
]
Memory = Annotated[str | None, typer.Option(help="Memory for the model, such as 4G: a limit on its size.")]
MaxCells = Annotated[
    int | None,
    typer.Option(help="Limit on the cells of the model (default: the recipe's, else 250 million)."),
]
Threads = Annotated[int | None, typer.Option(help="Threads (default: all cores this process may use).")]


_PARAMETER = re.compile(
    r"(?<![\w/'\"])(?:(resume|ignore_empty_columns)=True|(archetypes|clip|dataset|domain|drop|engine|form|ledger|"
    r"max_cells|memory|out|partitions|public|report|rows|schema|seed|user)=(?:['\"](\w+)['\"])?)(?![\w'\"])"
)
_DIALECT = re.compile(r'\bdialect=\{"(\w+)": ("[^"]*")\}')


def as_options(text: str) -> str:
    """A text of the library, which names parameters of Python (`resume=True`, `domain='private'`), with the
    command line's options in their place."""
    text = _DIALECT.sub(lambda m: "--dialect " + shlex.quote(f"{m[1]} = {m[2]}"), text)

    def option(m: re.Match[str]) -> str:
        name = "as" if m[2] == "form" else (m[1] or m[2]).replace("_", "-")
        return f"--{name} {m[3]}" if m[3] else f"--{name}"

    return _PARAMETER.sub(option, text)


def check_paths(*data: str | None, schema: str | None = None) -> None:
    """DataError or SchemaError where a path does not exist, before anything heavy is imported."""
    for path in data:
        if path is not None and not path.startswith("table:"):
            check_source_path(path)
    if schema is not None and Path(schema).suffix and not Path(schema).exists():
        raise SchemaError(f"there is no schema file {schema!r}")


def emit(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1, default=str))


def weak_promises(epsilons: Sequence[float | None], delta: float | None) -> list[str]:
    """Texts that say why the promise is weak at one of these epsilons with this delta; empty if it is not."""
    from ..privacy.statement import weak_promise

    return list(dict.fromkeys(text for e in epsilons for text in weak_promise(e or 0.0, delta or 0.0)))


def refusals(epsilons: Sequence[float], delta: float) -> list[str]:
    """Texts that say why runs at these epsilons would be refused: the error of the noise sampler, which adds
    to delta, would be too large."""
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
    """UsageError if the promise would be weak and --yes was not given; with --yes, a warning."""
    for text in weak_promises(epsilons, delta):
        if not yes:
            raise UsageError(f"{text}. Choose smaller numbers, or confirm with --yes")
        typer.echo(f"fastdp: warning: {text}", err=True)


def dialect_of(text: str | None) -> Dialect | None:
    """The dialect that the option `--dialect` describes; None if it was not given."""
    from ..schema.dialect import Dialect

    return None if text is None else Dialect.from_text(text)


def beside(data: str, suffix: str) -> Path:
    """A path in the same folder as the data (a file, folder or glob), with the data's name and this
    suffix."""
    path = Path(data)
    while any(c in path.name for c in "*?["):
        path = path.parent
    if path.name in ("", "..", "."):
        path = path.resolve()
    return path.with_name((path.name if path.is_dir() else path.stem or "data") + suffix)


def schema_beside(data: str) -> str | None:
    """The schema file in the same folder as the data and with the same name; None if there is none."""
    return next((str(p) for p in (beside(data, ".toml"), beside(data, ".json")) if p.exists()), None)
