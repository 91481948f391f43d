"""Sources of the package as syntax trees: parsed once in a process, whichever test asks for them."""

import ast
import gc
from functools import cache


@cache
def parsed(path):
    """The tree of a file. The garbage collector would go through all trees again and again: it is off
    while one is made, and does not look at what has been made."""
    collects = gc.isenabled()
    gc.disable()
    try:
        tree = ast.parse(path.read_text("utf-8"))
        gc.freeze()
        return tree
    finally:
        if collects:
            gc.enable()


def statements(node, types=True):
    """The statements inside one; `types`: also those under TYPE_CHECKING. Expressions, which are
    nine tenths of a tree, hold no imports and no definitions."""
    for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
        children = getattr(node, inner, ())
        for child in children if isinstance(children, list) else ():
            if types or not _for_types(child):
                yield child
                yield from statements(child, types)


def _for_types(node):
    """Whether a statement is `if TYPE_CHECKING` or `if typing.TYPE_CHECKING`."""
    test = getattr(node, "test", None) if isinstance(node, ast.If) else None
    return "TYPE_CHECKING" in (getattr(test, "id", None), getattr(test, "attr", None))
