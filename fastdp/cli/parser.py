"""Commands made of functions: a function's parameters are its arguments and options, its docstring
says what it does, and help.toml what the parameters mean.

argparse parses them, and only those of the command that is called. A command line is started anew
for every call, and a library for it may take as long as a small run.
"""

from __future__ import annotations

import argparse
import shutil
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn, TypeVar, get_args

from .._util.files import as_path
from ..errors import UsageError, did_you_mean
from .waiting import waiting

HELP = tomllib.loads(Path(__file__).with_name("help.toml").read_text("utf-8"))
GROUPS = {
    "schema": "Schemas: show, import, check, draft.",
    "ledger": "Budget ledgers: open, show, release, verify.",
}
FLAGS: dict[str, Callable[[], None]] = {}
"""Options of the program itself, which call something and end it."""
COMMANDS: dict[tuple[str, ...], Callable[..., None]] = {}
"""By name: ("synth",), or group and name: ("ledger", "open")."""
Command = TypeVar("Command", bound=Callable[..., None])
OPTION_TYPES: dict[Any, tuple[str, str]] = {
    int: ("N", "a whole number"),
    float: ("NUMBER", "a number"),
    str: ("TEXT", ""),
    Path: ("PATH", ""),
}
"""By type of an option: how help writes its value, and what an error says was expected."""
WIDTH = 100
"""Characters of a line of help, at most."""
NARGS = {(True, True): "+", (True, False): "*", (False, True): None, (False, False): "?"}
"""argparse's `nargs` of a positional argument, by (it takes several values, it is required)."""


def command(*path: str) -> Callable[[Command], Command]:
    """Make a function the command of this name."""

    def register(function: Command) -> Command:
        COMMANDS[path] = function
        return function

    return register


def call(arguments: Sequence[str]) -> None:
    """Call the command that the arguments name; UsageError if they are wrong."""
    path: tuple[str, ...] = ()
    rest = list(arguments)
    while path not in COMMANDS:
        if not rest or rest[0] in ("-h", "--help"):
            print(overview(path))
            raise SystemExit(0 if rest else UsageError.exit_code)
        if not path and rest[0] in FLAGS:
            return FLAGS[rest[0]]()
        names = names_after(path)
        if rest[0] not in names:
            kind = "option" if rest[0].startswith("-") else "command"
            raise UsageError(f"there is no {kind} {rest[0]!r}{did_you_mean(rest[0], names)}")
        path = (*path, rest.pop(0))
    given = vars(parser_of(path).parse_intermixed_args(rest))
    silent = given.get("quiet") or given.get("as_json") or given.get("progress") == "json"
    with waiting(" ".join(path), bool(silent)):
        COMMANDS[path](**given)


def parser_of(path: tuple[str, ...]) -> _Parser:
    """The parser of a command's arguments."""
    function = COMMANDS[path]
    said = HELP
    for name in path:
        said = said[name]
    about = textwrap.dedent(f"    {function.__doc__}").strip()
    parser = _Parser(" ".join(("fastdp", *path)), about, said["examples"].strip("\n"))
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = dict(zip(reversed(names), reversed(function.__defaults__ or ())))
    for name in names:
        words = (said.get(name) or HELP["shared"][name]).split(" ")
        many, kind = _kind(function.__annotations__[name])
        given: dict[str, Any] = {} if kind is bool else {"type": _value(kind, name)}
        given["default"] = defaults.get(name)
        required = name not in defaults
        if name in said.get("arguments", ()):
            given["nargs"] = NARGS[many, required]
            shown = (name.upper() if required else f"[{name.upper()}]") + "..." * many
            parser.add_argument(name, metavar=name.upper(), **given)
            parser.places[shown] = " ".join(words)
            continue
        called = [w for i, w in enumerate(words) if all(v.startswith("-") for v in words[: i + 1])]
        text = " ".join(words[len(called) :])
        if not any(word.startswith("--") for word in called):
            called.append(f"--{name.replace('_', '-')}")
        text += " [required]" if required else ""
        text += f" [default: {given['default']}]" if given["default"] not in (None, False) else ""
        if kind is bool:
            given["action"] = "store_true"
        elif many:
            given["action"] = "append"
        parser.add_argument(*called, dest=name, required=required, **given)
        if name not in said.get("hidden", ()):
            parser.options[*called] = text.strip(), "" if kind is bool else OPTION_TYPES[kind][0]
    parser.add_argument("-h", "--help", action="help")
    parser.options["-h", "--help"] = "Show this message and exit.", ""
    return parser


def overview(path: tuple[str, ...]) -> str:
    """The commands of the program, or of a group, with a line about each."""
    about = f"  {GROUPS[path[0]]}" if path else HELP["about"]
    flags = ({} if path else HELP["flags"]) | {"-h, --help": "Show this message and exit."}
    listed = {name: _summary((*path, name)) for name in names_after(path)}
    usage = f"Usage: {' '.join(('fastdp', *path))} [OPTIONS] COMMAND [ARGUMENTS]"
    return "\n".join(
        [usage, "", about, "", "Options:", *_table(flags), "", "Commands:", *_table(listed)]
    )


def names_after(path: tuple[str, ...]) -> list[str]:
    """Names that may follow: commands in the order of help.toml, and groups."""
    said = HELP[path[0]] if path else HELP
    return [name for name in said if (*path, name) in COMMANDS or (not path and name in GROUPS)]


def _summary(path: tuple[str, ...]) -> str:
    """The first sentence of what a command or a group says of itself."""
    if path in COMMANDS:
        text = str(COMMANDS[path].__doc__).split("\n\n")[0]
    else:
        text = GROUPS[path[0]]
    return textwrap.shorten(text.split(". ")[0].rstrip("."), _columns() - 16, placeholder="...")


def _kind(annotation: Any) -> tuple[bool, type]:
    """Whether it is a list, and the type of a value: `list[str] | None` gives (True, str)."""
    if isinstance(annotation, UnionType):
        annotation = get_args(annotation)[0]
    return (True, get_args(annotation)[0]) if get_args(annotation) else (False, annotation)


def _value(kind: type, name: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if kind is Path:
            return _path(text, name)
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"expected {OPTION_TYPES[kind][1]}, got {text!r}"
            ) from None

    return parse


def _path(text: str, name: str) -> Path:
    """The local path of an argument. argparse would hide the text of our own error."""
    try:
        return as_path(text, name)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix(f"{name}: ")) from None


class _Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would end the process, and lays out help as `overview` does.

    `places` are texts of arguments by name, `options` are (text, name of the value) by all names.
    """

    def __init__(self, prog: str, about: str, examples: str):
        super().__init__(prog=prog, add_help=False, allow_abbrev=False)
        self.about = about
        self.examples = examples
        self.places: dict[str, str] = {}
        self.options: dict[tuple[str, ...], tuple[str, str]] = {}

    def error(self, message: str) -> NoReturn:
        _, unknown, words = message.partition("unrecognized arguments: ")
        if unknown:
            name = words.split(" ")[0]
            hint = did_you_mean(name, [names[-1] for names in self.options])
            option = name.startswith("-")
            if option:
                message = f"there is no option {name!r}{hint}"
            else:
                message = f"unexpected argument {name!r}"
        raise UsageError(f"{message.removeprefix('argument ')} (see: {self.prog} --help)")

    def format_help(self) -> str:
        options = {
            f"{', '.join(n)} {value}".rstrip(): text for n, (text, value) in self.options.items()
        }
        lines = [
            f"Usage: {' '.join([self.prog, '[OPTIONS]', *self.places])}",
            "",
            *_wrapped(self.about),
        ]
        lines += ["", "Arguments:", *_table(self.places)] if self.places else []
        return "\n".join(
            [*lines, "", "Options:", *_table(options), "", "Examples:", self.examples, ""]
        )


def _columns() -> int:
    return max(40, min(WIDTH, shutil.get_terminal_size().columns))


def _wrapped(text: str) -> Iterator[str]:
    for i, paragraph in enumerate(text.split("\n\n")):
        yield ("\n" if i else "") + textwrap.fill(
            " ".join(paragraph.split()), _columns(), initial_indent="  ", subsequent_indent="  "
        )


def _table(texts: dict[str, str]) -> Iterator[str]:
    """Names on the left, their texts wrapped on the right."""
    left = min(24, max(map(len, texts))) + 4
    for name, text in texts.items():
        first = f"  {name}".ljust(left) if len(name) + 4 <= left else f"  {name}\n{' ' * left}"
        wrapped = textwrap.fill(
            text, _columns() - left, break_long_words=False, break_on_hyphens=False
        )
        yield (first + wrapped.replace("\n", f"\n{' ' * left}")).rstrip()
