"""Shared by several commands: options, JSON on standard output, and the refusal of a weak promise without
--yes."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from .._util.files import check_source_path
from ..errors import SchemaError, UsageError

if TYPE_CHECKING:
    from ..schema.dialect import Dialect

app = typer.Typer(
    name="fastdp",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
HELP = tomllib.loads((files(__package__) / "help.toml").read_text("utf-8"))
STAGES = HELP["stages"]
"""What a run does in each of its stages."""
Command = TypeVar("Command", bound=Callable[..., None])


def command(name: str, group: typer.Typer = app) -> Callable[[Command], Command]:
    """Make a function a command. Its docstring says what it does, help.toml what its parameters are."""

    def register(function: Command) -> Command:
        said = HELP[name] if group is app else HELP[str(group.info.name)][name]
        for parameter, kind in get_type_hints(function).items():
            if parameter != "return":
                text = said.get(parameter) or HELP["shared"][parameter]
                option = _parameter(parameter, text, said, kind)
                function.__annotations__[parameter] = Annotated[kind, option]
        shown = said["examples"].strip("\n")
        title = "Examples" if shown.count("\n  fastdp") else "Example"
        group.command(name, epilog=f"{title}:\n\n\b\n{shown}")(function)
        return function

    return register


def _parameter(name: str, text: str, said: Mapping[str, Any], kind: Any) -> Any:
    """The option or argument of this name; words of its text that begin with "-" are names of the option."""
    if name in said.get("arguments", ()):
        return typer.Argument(help=text)
    words = text.split(" ")
    names = [word for i, word in enumerate(words) if all(w.startswith("-") for w in words[: i + 1])]
    text = " ".join(words[len(names) :])
    if not any(n.startswith("--") for n in names):
        names.insert(0, f"--{name.replace('_', '-')}")
    return typer.Option(*names, help=text or None, hidden=name in said.get("hidden", ()))


_PARAMETER = re.compile(
    r"(?<![\w/'\"])(?:(resume|ignore_empty_columns)=True|(archetypes|clip|dataset|domain|drop|engine|form|"
    r"ledger|max_cells|memory|out|partitions|public|report|rows|schema|seed|user)="
    r"(?:['\"](\w+)['\"])?)(?![\w'\"])"
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
    """Raise DataError or SchemaError if a path does not exist, before anything heavy is imported."""
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
    """Raise UsageError if the promise would be weak and --yes was not given; with --yes, a warning."""
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
