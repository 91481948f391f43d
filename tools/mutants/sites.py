"""Where a source file can be changed by one small fault: operators, constants, dropped statements.

Changes are made in the text, so that everything else of the file stays as it is. Texts,
annotations, decorators, what `raise` says, representations for people and assertions (`assert`,
`zip(strict=)`) are left alone.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Site:
    """One possible change: bytes `start`..`end` of the file, `old`, become `new`. `line`: 1-based.

    `kind`: what is changed. "declared" (a number that has a name of its own, which says why it was
    chosen) and "text" (what is said to people) are counted apart: often no test should depend on
    them."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str
    kind: str

    def apply(self, text: bytes) -> bytes:
        assert text[self.start : self.end].decode() == self.old
        lines = "\n" * (self.old.count("\n") - self.new.count("\n"))  # others keep their numbers
        return text[: self.start] + (self.new + lines).encode() + text[self.end :]

    def __str__(self) -> str:
        old, new = (" ".join(s.split()) for s in (self.old, self.new))
        return f"{self.path}:{self.line} {self.kind}: {old[:60]!r} -> {new[:60]!r}"


COMPARE = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
FOR_PEOPLE = {"__repr__", "_repr_html_", "__str__"}


def python_sites(path: str, text: bytes) -> list[Site]:
    """Every site of a Python file, in the order of the text."""
    return sorted(_Python(path, text).sites(), key=lambda s: (s.start, s.end, s.new))


class _Python:
    def __init__(self, path: str, text: bytes):
        self.path = path
        self.text = text
        self.starts = [0]
        for line in text.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)

    def sites(self) -> Iterator[Site]:
        tree = ast.parse(self.text)
        declared = {id(part) for s in tree.body if _is_declared(s) for part in ast.walk(s)}
        nodes: list[ast.AST] = [tree]
        while nodes:
            node = nodes.pop()
            for site in self._here(node):
                if id(node) in declared:
                    kind = "declared"
                elif _drops_text(node):
                    kind = "text"
                else:
                    kind = site.kind
                yield replace(site, kind=kind)
            nodes.extend(self._children(node))

    def _at(self, node: ast.AST) -> tuple[int, int]:
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _site(self, start: int, end: int, new: str, kind: str) -> Site:
        line = bisect_right(self.starts, start)
        return Site(
            self.path,
            line,
            start=start,
            end=end,
            old=self.text[start:end].decode(),
            new=new,
            kind=kind,
        )

    def _operator(
        self, left: ast.AST, right: ast.AST, signs: tuple[str, str], kind: str
    ) -> Iterator[Site]:
        """The operator between two nodes; parentheses and white space are all else there is."""
        start, end = self._at(left)[1], self._at(right)[0]
        between = self.text[start:end].decode()
        match = re.search(r"\s*".join(re.escape(word) for word in signs[0].split()), between)
        if match and "#" not in between:
            yield self._site(start + match.start(), start + match.end(), signs[1], kind)

    def _children(self, node: ast.AST) -> Iterator[ast.AST]:
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
            return
        if isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.FunctionDef) and node.name in FOR_PEOPLE:
            return
        if isinstance(node, ast.Call) and _name(node.func) in ("isinstance", "issubclass"):
            return
        if isinstance(node, ast.Call) and _name(node.func) == "reshape":  # -2 means -1
            yield from (c for c in ast.iter_child_nodes(node) if not _is_negative(c))
            return
        if isinstance(node, ast.Call) and _name(node.func) == "zip":
            yield from node.args
            return
        for name, value in ast.iter_fields(node):
            if name in (
                "annotation",
                "returns",
                "decorator_list",
                "keywords" if _is_field(node) else "",
            ):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.arguments):
                    yield from (x for x in (*child.defaults, *child.kw_defaults) if x is not None)
                elif isinstance(child, ast.AST):
                    yield child

    def _here(self, node: ast.AST) -> Iterator[Site]:
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            for left, sign, right in zip(parts, node.ops, parts[1:], strict=False):
                yield from self._operator(left, right, COMPARE[type(sign)], "comparison")
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            if not any(_is_text(side) for side in (node.left, node.right)):
                yield from self._operator(
                    node.left, node.right, ARITHMETIC[type(node.op)], "operator"
                )
        elif isinstance(node, ast.BoolOp):
            signs = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from self._operator(left, right, signs, "operator")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            start, end = self._at(node)
            yield self._site(
                start, end, self.text[start + len("not") : end].decode().lstrip(), "operator"
            )
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            start, end = self._at(node)
            if not isinstance(node.operand, ast.Constant):
                yield self._site(start, start + 1, "+", "operator")
        elif isinstance(node, ast.Constant):
            yield from self._constant(node)
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            # What stands under TYPE_CHECKING is for type checkers alone.
            typed = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            if isinstance(node.test, ast.Name | ast.Call | ast.Attribute) and not typed:
                start, end = self._at(node.test)
                yield self._site(start, end, f"not {self.text[start:end].decode()}", "condition")
        elif isinstance(node, ast.Expr | ast.AugAssign | ast.Raise) or _is_store(node):
            if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call):
                return
            start, end = self._at(node)
            yield self._site(start, end, "pass", "dropped")
        elif isinstance(node, ast.Break | ast.Continue):
            start, end = self._at(node)
            yield self._site(
                start, end, "continue" if isinstance(node, ast.Break) else "break", "statement"
            )

    def _constant(self, node: ast.Constant) -> Iterator[Site]:
        start, end = self._at(node)
        if isinstance(node.value, bool):
            yield self._site(start, end, str(not node.value), "constant")
        elif isinstance(node.value, int):
            yield self._site(start, end, str(node.value + 1), "constant")
            if node.value:
                yield self._site(start, end, str(node.value - 1), "constant")
        elif isinstance(node.value, float):
            yield self._site(start, end, repr(node.value * 1.5 if node.value else 1.0), "constant")


def _is_declared(statement: ast.stmt) -> bool:
    """Numbers with names in capitals, at the top of a module."""
    if not isinstance(statement, ast.Assign):
        return False
    names = [n for target in statement.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    parts = (
        ast.Constant | ast.Tuple | ast.Load | ast.UnaryOp | ast.BinOp | ast.operator | ast.unaryop
    )
    parts |= ast.Dict | ast.List | ast.Set
    return all(n.id.isupper() for n in names) and all(
        isinstance(part, parts) for part in ast.walk(statement.value)
    )


def _drops_text(node: ast.AST) -> bool:
    """A text is added to others: `notes.append("...")`, `line += "..."`."""
    call = node.value if isinstance(node, ast.Expr) else None
    added = call.args if isinstance(call, ast.Call) and _name(call.func) == "append" else []
    return any(map(_is_text, added)) or (isinstance(node, ast.AugAssign) and _is_text(node.value))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_negative(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _is_store(node: ast.AST) -> bool:
    """An assignment to an attribute or an item: without it the name is still there."""
    return isinstance(node, ast.Assign) and all(
        isinstance(t, ast.Attribute | ast.Subscript) for t in node.targets
    )


def _is_field(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name(node.func) in ("field", "Option", "Argument")


def _name(node: ast.AST) -> str:
    """The last part of a name; "" for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


TOKENS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|\n', re.S)
C_OPERATORS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "*": "+",
    "/": "*",
    "%": "/",
    "&": "|",
    "|": "&",
    "^": "&",
    "<<": ">>",
    ">>": "<<",
    "&&": "||",
    "||": "&&",
    "+=": "-=",
    "-=": "+=",
    "*=": "+=",
    "|=": "&=",
    "&=": "|=",
}
# Sources are formatted: a space stands on both sides of an operator with two operands, and of no
# other.
C_OPERATOR = re.compile(
    r"(?<=[\w)\]]) (" + "|".join(sorted(map(re.escape, C_OPERATORS), key=len, reverse=True)) + ") "
)
C_NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)(?![\w.])")
C_STATEMENT = re.compile(
    r"[ \t]+((?!return|goto|const|static|else|for|if|case|struct|break|continue)\S[^\n]*;)["
    r" \t]*\\?$"
)
C_CONSTANT = re.compile(r"#define \w+ ")


def c_sites(path: str, text: bytes) -> list[Site]:
    """Every site of a C file, in the order of the text."""
    source = text.decode("ascii")
    code = TOKENS.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)
    out = []
    at = 0
    before = "{"
    for number, line in enumerate(code.split("\n"), 1):
        bare = line.strip(" \t\\")
        if (not bare.startswith("#") or C_CONSTANT.match(bare)) and not bare.startswith(
            "_Static_assert"
        ):
            for m in C_OPERATOR.finditer(line):
                start = at + m.start(1)
                out.append(
                    Site(
                        path,
                        number,
                        start=start,
                        end=start + len(m[1]),
                        old=m[1],
                        new=C_OPERATORS[m[1]],
                        kind="operator",
                    )
                )
            kind = "declared" if C_CONSTANT.match(bare) else "constant"
            for m in C_NUMBER.finditer(line):
                value = int(m[1], 0)
                start = at + m.start(1)
                for new in {value + 1, max(0, value - 1)} - {value}:
                    digits = hex(new) if m[1][:2] in ("0x", "0X") else str(new)
                    out.append(
                        Site(
                            path,
                            number,
                            start=start,
                            end=start + len(m[1]),
                            old=m[1],
                            new=digits,
                            kind=kind,
                        )
                    )
            m = C_STATEMENT.match(line)
            if m and before[-1:] in ("{", "}", ";", ":") and _is_whole_statement(m[1]):
                start = at + m.start(1)
                out.append(
                    Site(
                        path,
                        number,
                        start=start,
                        end=start + len(m[1]),
                        old=source[start : start + len(m[1])],
                        new=";",
                        kind="dropped",
                    )
                )
        before = bare or before
        at += len(line) + 1
    return sorted(out, key=lambda s: (s.start, s.end, s.new))


def _is_whole_statement(text: str) -> bool:
    """An assignment, a step or a call: no declaration, whose name later lines need."""
    declared = re.match(r"[A-Za-z_][\w ]*[ *]+[A-Za-z_]\w*(\[[^\]]*\])?( =.*)?(,.*)?;$", text)
    acts = re.search(r"[^=!<>]=[^=]|\+\+|--|\w\(", text)
    return text.count("(") == text.count(")") and acts is not None and declared is None
