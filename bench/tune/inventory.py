"""Every numeric constant of shares, mechanisms, the estimator and users, with where it comes from.

A constant is an assignment of numbers to a name in capitals. What a script can tell of it: its
value, what its text says, and which of four kinds it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "fastdp"
FOLDERS = ("division", "mechanisms", "estimate", "users")
"""Folders and files of the package."""
KINDS = {
    "tuned": "its text says that it was chosen by results on some tables",
    "choice": "its text says what it is, not what another value would do",
    "limit": "bounds memory, time or work, or is the grain of a grid",
    "numerical": "a tolerance, a guard against division by zero, or a number of steps of a solver",
}
CHOSEN = re.compile(
    r"[Cc]hosen(,[^,]*,)? (on|among|by `|with the)|[Tt]ried on|[Ww]ithout (it|them)|lost? \.?\d"
    r"|(?<!standard )errors (were|are|differ|grow)|better|worse|win"
    r" back|costs? 1",
    re.IGNORECASE,
)
LIMIT = re.compile(
    r"\b(MB|GB|bytes?|memory|seconds?|too large|processor|overflow|the most (cells|sets|pairs|items"
    r"|counts|rows|work)|rows? (drawn|of a) )|bound that is not reached|not reached"
)
NUMERICAL = re.compile(
    r"[Tt]oleran|residual|Newton|conjugate|step|rounding|iterat|[Ss]weeps?|converge|logarithm"
)
STANDARD_ERRORS = re.compile(r"^Standard (errors|deviations)\b|\b(this|so) many standard")
"""What the text of such a constant says."""
REPEATED_BY = {
    "division": "--set {path}=VALUE",
    "division.VALUES": "--set {path}=VALUE --bench values",
    "mechanisms": "--set {path}=VALUE",
    "mechanisms.cliquetree.dense_tables": (
        "--set {path}=VALUE --tables gauss10-0.3 gauss30-0.3 gauss50-0.3 factors"
    ),
    "mechanisms.cliquetree.resolutions": "--set {path}=VALUE --tables fine fine-two tails adult",
    "mechanisms.cliquetree.tree_state.LEAST_PER_CELL": "--set {path}=VALUE --tables fine fine-two",
    "mechanisms.cliquetree.trends": "--set {path}=VALUE --tables weak weak-many fine fine-two adult",
    "mechanisms.limits": "--of-class --without DEFAULT_CELLS --epsilon 10",
    "mechanisms.shared.dependencies": "--set {path}=VALUE --tables postcodes postcodes-few copied",
    "estimate": "--set {path}=VALUE",
    "users": "--set {path}=VALUE",
}
"""By the start of a path, how `python -m bench.tune` compares other values of a constant."""
COMMAND = re.compile(r"`(python -m bench\.[^`]*)`")
"""A command that a constant's text names: that which chose it."""
HEADER = re.compile(r"#\s*(Constants.*)")


@dataclass(frozen=True)
class Constant:
    """module: below fastdp. about: its text, and that of the group of constants it stands in."""

    module: str
    name: str
    value: str
    line: int
    about: str
    group: str

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def kind(self) -> str:
        """One of KINDS: by its text first, then by its size."""
        if CHOSEN.search(self.about):
            return "tuned"
        if "<<" in self.value or LIMIT.search(self.about) or "_CELLS" in self.name:
            return "limit"
        if self.module.startswith("estimate.") or "1e-" in self.value:
            return "tuned" if CHOSEN.search(self.group) else "numerical"
        if NUMERICAL.search(self.about):
            return "numerical"
        return "tuned" if CHOSEN.search(self.group) else "choice"

    @property
    def command(self) -> str:
        """The command that compares other values: the one that its text names, or that of its place;
        empty if it is not tuned."""
        if self.kind != "tuned":
            return ""
        if named := COMMAND.search(self.about):
            return named[1]
        place = max((p for p in REPEATED_BY if self.path.startswith(p)), key=len)
        return f"python -m bench.tune {REPEATED_BY[place].format(path=self.path)}"

    @property
    def provenance(self) -> str:
        """The sentence that says what it was chosen on; empty if there is none."""
        for text in (self.about, self.group):
            for sentence in re.split(r"(?<=[.;:]) ", text):
                if CHOSEN.search(sentence):
                    return sentence
        return ""


def constants() -> list[Constant]:
    """All of them, in the order of files and lines."""
    out: list[Constant] = []
    for folder in FOLDERS:
        single = (PACKAGE / folder).with_suffix(".py")
        for path in [single] if single.is_file() else sorted((PACKAGE / folder).rglob("*.py")):
            out += in_file(path)
    return out


def own_thresholds() -> list[str]:
    """Names of constants of the whole package that are so many standard errors of some number,
    beside those of `significance`. The page says why each stays. Only files that have the word are
    parsed."""
    return [
        one.name
        for path in sorted(PACKAGE.rglob("*.py"))
        if "tandard" in path.read_text("utf-8")
        for one in in_file(path)
        if one.module != "significance" and STANDARD_ERRORS.search(one.about)
    ]


@cache
def in_file(path: Path) -> tuple[Constant, ...]:
    source = path.read_text("utf-8")
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    body = ast.parse(source).body
    headers = _headers(source)
    out = []
    for node, after in zip(body, [*body[1:], None]):
        about = _text(after)
        for name, value in assigned(node):
            if numeric(value):
                group = next((text for line, text in headers if line < node.lineno), "")
                shown = ast.unparse(value)
                out.append(Constant(module, name, shown, node.lineno, about, group))
    return tuple(out)


def assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """(name, value) of constants that a statement assigns, one by one if they are several."""
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        target: ast.expr = node.target
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    else:
        return
    assert node.value is not None
    pairs = [(target, node.value)]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        pairs = list(zip(target.elts, node.value.elts))
    for where, value in pairs:
        if isinstance(where, ast.Name) and re.fullmatch(r"_?[A-Z][A-Z0-9_]*", where.id):
            yield where.id, value


def numeric(value: ast.expr) -> bool:
    """Whether a value is made of numbers: it has one, and no text, call or name but math's."""
    parts = list(ast.walk(value))
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    found = [part.value for part in parts if isinstance(part, ast.Constant)]
    texts = [x for x in found if isinstance(x, str)]
    plain = not any(isinstance(part, ast.Lambda | ast.ListComp) for part in parts)
    own = {name for name in names if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name)}
    keys = isinstance(value, ast.Dict)
    return (
        plain and own <= {"math", "np"} and any(_number(x) for x in found) and (keys or not texts)
    )


def _number(x: object) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def _text(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split())
    return ""


def _headers(source: str) -> list[tuple[int, str]]:
    """Comments that introduce a group of constants, the last first."""
    out = []
    lines = source.splitlines()
    for i, line in enumerate(lines):
        if match := HEADER.match(line):
            text = [match[1]]
            for more in lines[i + 1 :]:
                if not more.startswith("#"):
                    break
                text.append(more.lstrip("# "))
            out.append((i + 1, " ".join(text)))
    return out[::-1]


def counts(found: list[Constant]) -> dict[str, dict[str, int]]:
    """How many of each kind a folder has."""
    out = {folder: dict.fromkeys(KINDS, 0) for folder in FOLDERS}
    for one in found:
        out[one.module.split(".")[0]][one.kind] += 1
    return out
