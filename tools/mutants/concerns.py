"""The lines that a change concerns, as path -> bits (bit n: line n): tests that reach one of them
may notice.

Inside a function these are the lines of the statement; for a default value, those of the function
it belongs to; for a constant or a field, those inside functions that name it, directly or through
other constants; for C code, those that name what is imported from its extension.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache

from . import places

Lines = dict[str, int]


def concerned(path: str, line: int) -> Lines:
    """Of a Python file; {} where no line inside a function is concerned."""
    if places.is_c(path):
        return _union(
            _naming(name, [user]) for m in places.extensions(path) for user, name in _users(m)
        )
    inner, outer = _around(path, line)
    if outer is None:
        names = _closure(path, _assigned(inner))
        everywhere = [path] if all(name.startswith("_") for name in names) else package()
        return _union(_naming(name, everywhere) for name in names) or {path: inside(path)}
    if isinstance(inner, ast.FunctionDef) and line < inner.body[0].lineno:
        return {path: _bits(inner.body[0].lineno, inner.end_lineno)}
    body = getattr(inner, "body", None)
    last = body[0].lineno - 1 if body else inner.end_lineno
    return {path: _bits(inner.lineno, last) if line <= last else _bits(line, line)}


@cache
def package() -> list[str]:
    return sorted(str(p.relative_to(places.ROOT)) for p in (places.ROOT / "fastdp").rglob("*.py"))


@cache
def tree(path: str) -> ast.Module:
    return ast.parse((places.ROOT / path).read_bytes())


@cache
def texts(path: str) -> list[str]:
    return ["", *(places.ROOT / path).read_text("utf-8").split("\n")]


def _around(path: str, line: int) -> tuple[ast.stmt, ast.FunctionDef | None]:
    """(the innermost statement at a line, the function that it is in the body of)."""
    inner = None
    outer = None
    nodes: list[ast.AST] = [tree(path)]
    while nodes:
        node = nodes.pop()
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                continue
            first, last = _span(child)
            if first <= line <= last:
                if isinstance(child, ast.stmt):
                    if isinstance(inner, ast.FunctionDef):
                        outer = inner
                    inner = child
                nodes = [child]
                break
    assert inner is not None, f"{path}:{line} is in no statement"
    if outer is None and isinstance(inner, ast.FunctionDef):
        outer = inner  # a default value
    return inner, outer


def _span(node: ast.AST) -> tuple[int, int]:
    lines = [n.lineno for n in ast.walk(node) if hasattr(n, "lineno")]
    ends = [n.end_lineno for n in ast.walk(node) if hasattr(n, "end_lineno")]
    return min(lines), max(ends)


def _assigned(statement: ast.stmt) -> set[str]:
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return {n.id for t in targets if t is not None for n in ast.walk(t) if isinstance(n, ast.Name)}


def _closure(path: str, names: set[str]) -> set[str]:
    """Names of a file that are made from others outside of functions, added to them."""
    blocks = [tree(path), *(n for n in tree(path).body if isinstance(n, ast.ClassDef))]
    made = [
        (_assigned(s), {n.id for n in ast.walk(s) if isinstance(n, ast.Name)})
        for b in blocks
        for s in b.body
    ]
    size = -1
    while size != len(names):
        size = len(names)
        names = names.union(*(to for to, of in made if of & names))
    return names


@cache
def inside(path: str) -> int:
    """Lines inside functions."""
    functions = (n for n in ast.walk(tree(path)) if isinstance(n, ast.FunctionDef))
    bits = 0
    for f in functions:
        bits |= _bits(f.body[0].lineno, f.end_lineno)
    return bits


def _naming(name: str, paths: Iterable[str]) -> Lines:
    """Lines inside functions that hold a name."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    out = {}
    for path in paths:
        bits = 0
        for number, text in enumerate(texts(path)):
            if name in text and word.search(text):
                bits |= 1 << number
        if bits & inside(path):
            out[path] = bits & inside(path)
    return out


def _users(module: str) -> Iterator[tuple[str, str]]:
    """(file of the package, name in it) of everything imported from an extension."""
    for path in package():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    if f"{node.module}.{alias.name}".endswith(
                        f"_core.{module}"
                    ) or node.module.endswith(f"_core.{module}"):
                        yield path, alias.asname or alias.name


def _union(parts: Iterable[Lines]) -> Lines:
    out: Lines = {}
    for part in parts:
        for path, bits in part.items():
            out[path] = out.get(path, 0) | bits
    return out


def _bits(first: int, last: int) -> int:
    return (1 << last + 1) - (1 << first)
