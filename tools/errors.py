"""List every distinct error and warning text of the package, with its place.

`python -m tools.errors [FOLDER ...]` prints one line per text, to read against the rule of
CONTRIBUTING.md: what is wrong, where, what was expected, what to do. Values are shown as
{expression}. A text that is put together from several pieces by hand is listed piece by piece.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import fastdp

ROOT = Path(fastdp.__file__).parent
MAKERS = re.compile(
    r"(Error|Warning|Exit|Cancelled|StoppedEarly|fail|broken|warn|warning|error|info|tell)$"
)
"""Calls whose texts are shown to the user."""
LISTS = re.compile(r"(problems|refusals|refusal|reason|fail|broken|stopped|warnings|advice|cause)$")
"""Functions that return or yield such texts."""


def template(node: ast.AST) -> str | None:
    """A text as the source writes it, None for a node that is not a text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(template(v) or f"{{{ast.unparse(v.value)}}}" for v in node.values)  # type: ignore[attr-defined]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = template(node.left), template(node.right)
        if left is not None or right is not None:
            return (left or f"{{{ast.unparse(node.left)}}}") + (
                right or f"{{{ast.unparse(node.right)}}}"
            )
    return None


def texts_in(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The outermost texts under a node, with their lines."""
    text = template(node)
    if text is not None:
        yield node.lineno, text  # type: ignore[attr-defined]
        return
    for child in ast.iter_child_nodes(node):
        yield from texts_in(child)


def sources(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module that make texts for the user."""
    if isinstance(node, ast.Raise):
        yield node
    elif isinstance(node, ast.Call) and MAKERS.search(ast.unparse(node.func)):
        yield node
    elif isinstance(node, ast.FunctionDef) and LISTS.search(node.name):
        yield from (part for part in node.body if not _docstring(part))
        return
    for child in ast.iter_child_nodes(node):
        yield from sources(child)


def _docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def error_texts(path: Path) -> dict[str, int]:
    """Each text of a module and the first line that holds it. Single words (keys, names) are left
    out."""
    found: dict[str, int] = {}
    for source in sources(ast.parse(path.read_text("utf-8"))):
        for line, text in texts_in(source):
            if " " in text.strip():
                found.setdefault(text, line)
    return found


def main(folders: list[str]) -> None:
    """Print the texts of these folders of the package, of all without any."""
    total = 0
    for path in sorted(p for f in folders or ["."] for p in (ROOT / f).rglob("*.py")):
        for text, line in sorted(error_texts(path).items(), key=lambda item: item[1]):
            total += 1
            print(f"{path.relative_to(ROOT.parent)}:{line}: {' '.join(text.split())}")
    print(f"{total} texts", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
