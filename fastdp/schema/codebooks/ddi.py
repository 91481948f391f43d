"""DDI-Codebook 2.x: the XML that survey archives publish with their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from ...errors import SchemaError
from .public_column import PublicColumn, PublicTable, number

MOST_BYTES = 256 << 20
"""A code book above this size is refused: the largest of national surveys have some 50 MB."""


def tables(path: Path) -> list[PublicTable]:
    """The table of a code book: one file of variables. Files that `fileDscr` tells apart are
    tables of their own."""
    root = _root(path)
    files = {each.get("ID"): _text(each, "fileTxt/fileName") for each in _all(root, "fileDscr")}
    by_file: dict[str, list[PublicColumn]] = {}
    for variable in _all(root, "var"):
        named = variable.get("files") or ""
        name = Path(files.get(named) or "").stem or named or path.stem
        by_file.setdefault(name, []).append(_column(variable))
    return [PublicTable(name, tuple(columns)) for name, columns in by_file.items()]


def _root(path: Path) -> ElementTree.Element:
    """The document. A document type is refused: it may define entities that grow without end."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SchemaError(f"file {path}: larger than {MOST_BYTES >> 20} MB")
        text = path.read_bytes()
    except OSError as error:
        raise SchemaError(f"file {path}: {error.strerror}") from None
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise SchemaError(f"file {path}: remove its document type (<!DOCTYPE ...>)")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise SchemaError(f"file {path}: not valid XML ({error})") from None
    if _bare(root) != "codeBook":
        raise SchemaError(f"file {path}: expected <codeBook>, got <{_bare(root)}>")
    return root


def _bare(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def _all(element: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    return (each for each in element.iter() if _bare(each) == name)


def _own(element: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [each for each in element if _bare(each) == name]


def _text(element: ElementTree.Element, path: str) -> str:
    """The text of the first element on a path of names; empty if there is none."""
    for name in path.split("/"):
        found = _own(element, name)
        if not found:
            return ""
        element = found[0]
    return " ".join("".join(element.itertext()).split())


def _column(variable: ElementTree.Element) -> PublicColumn:
    name = variable.get("name") or variable.get("ID")
    if not name:
        raise SchemaError("a <var> has neither 'name' nor 'ID'")
    form = _own(variable, "varFormat")
    numeric = not form or form[0].get("type", "numeric") == "numeric"
    pairs = {}
    for category in _own(variable, "catgry"):
        if value := _text(category, "catValu"):
            pairs[value] = _text(category, "labl") or value
    if pairs and variable.get("intrvl") != "contin":
        return _listed(name, pairs, numeric, _text(variable, "labl"))
    kind = "text"
    if numeric:
        kind = "whole" if variable.get("dcml", "0") == "0" else "number"
    low, high = _bounds(variable, name, kind)
    return PublicColumn(name=name, kind=kind, low=low, high=high, note=_text(variable, "labl"))


def _listed(name: str, pairs: dict[str, str], numeric: bool, note: str) -> PublicColumn:
    """A column of listed codes: whole numbers if all of them are, else texts as they stand."""
    if numeric and all(value.lstrip("-").isdigit() for value in pairs):
        labels = {int(value): label for value, label in pairs.items()}
        return PublicColumn(name=name, kind="whole", values=tuple(labels), labels=labels, note=note)
    return PublicColumn(name=name, kind="text", values=tuple(pairs), labels=pairs, note=note)


def _bounds(
    variable: ElementTree.Element, name: str, kind: str
) -> tuple[int | float | None, int | float | None]:
    """The range of valid values. Statistics of the file (`sumStat`) are not used: they may come
    from private rows."""
    if kind == "text":
        return None, None
    whole = kind == "whole"
    for valid in _own(variable, "valrng"):
        for span in _own(valid, "range"):
            low = number(span.get("min"), whole, f"column {name!r}, range 'min'")
            high = number(span.get("max"), whole, f"column {name!r}, range 'max'")
            return low, high
    return None, None
