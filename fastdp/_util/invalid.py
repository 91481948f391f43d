"""Says in plain words why a document does not have the form of a msgspec type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from ..errors import did_you_mean

_WORDS = {
    "object": "a table",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}
"""Words for msgspec's names of types."""


def explain_invalid(error: msgspec.ValidationError, expected: type) -> str:
    """What is wrong with a document that was read as `expected`, and where: `user: unknown field
    'col'; did you mean 'column'?`"""
    text, _, place = str(error).replace("`", "").partition(" - at $")
    steps = re.findall(r"\w+", place)
    where = f"{place.lstrip('.')}: " if steps else ""
    if match := re.fullmatch(r"Object contains unknown field (.+)", text):
        known = [name for fields in _fields_at(expected, steps) for name in fields]
        return f"{where}unknown field {match[1]!r}{did_you_mean(match[1], known)}"
    if match := re.fullmatch(r"Object missing required field (.+)", text):
        return f"{where}the field {match[1]!r} is missing"
    if match := re.fullmatch(r"Expected (.+), got (\w+)", text):
        wanted = " or ".join(_word(name) for name in match[1].split(" | ") if name != "null")
        return f"{where}expected {wanted}, got {_word(match[2])}"
    if match := re.fullmatch(r"Invalid enum value (.+)", text):
        choices = ", ".join(repr(value) for value in _choices_at(expected, steps))
        return f"{where}expected one of {choices}, got {match[1]}"
    return where + text[:1].lower() + text[1:]


def _word(name: str) -> str:
    return _WORDS.get(name, name)


def _fields_at(expected: type, steps: list[str]) -> Iterator[dict[str, inspect.Type]]:
    """The fields, with their types, of the structs that may stand at this place."""
    for one in _types_at(expected, steps):
        if isinstance(one, inspect.StructType):
            yield {field.encode_name: field.type for field in one.fields}


def _choices_at(expected: type, steps: list[str]) -> list[Any]:
    """The values that a text or number at this place may have."""
    listed = [one for one in _types_at(expected, steps) if isinstance(one, inspect.LiteralType)]
    return [value for one in listed for value in one.values]


def _types_at(expected: type, steps: list[str]) -> list[inspect.Type]:
    """The types that the value at this place may have."""
    if not steps:
        return _alternatives(inspect.type_info(expected))
    within = _fields_at(expected, steps[:-1])
    return [one for f in within if steps[-1] in f for one in _alternatives(f[steps[-1]])]


def _alternatives(one: inspect.Type) -> list[inspect.Type]:
    """The members of a union, or the type itself."""
    if isinstance(one, inspect.UnionType):
        return [inner for member in one.types for inner in _alternatives(member)]
    return [one]
