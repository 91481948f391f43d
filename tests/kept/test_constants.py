"""Constants, defaults of parameters and defaults of fields are those that are kept: each is a choice that a
docstring or a page of docs/ explains, and none changes unseen.

Kept per module: names in capitals, of the module and of its classes; plain attributes of classes; parameters
with defaults; fields of dataclasses and of structs with defaults; of structs, whether they are frozen, forbid
unknown fields, and take fields by place.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

import msgspec
import pytest

import fastdp

from .figures import check, plain

CONSTANT = re.compile(r"_*[A-Z][A-Z0-9_]*")
MODULES = [
    m.name
    for m in pkgutil.walk_packages(fastdp.__path__, "fastdp.")
    if "._core" not in m.name and not m.name.endswith("__main__")
]


def _value(value: Any) -> Any:
    return [value.pattern, value.flags] if isinstance(value, re.Pattern) else plain(value)


def _constants(of: Any, where: str) -> Iterator[tuple[str, Any]]:
    for name, value in sorted(vars(of).items()):
        if CONSTANT.fullmatch(name) and name != "TYPE_CHECKING" and not isinstance(value, ModuleType):
            yield f"{where}{name}", _value(value)


def _defaults(function: Any, where: str) -> Iterator[tuple[str, Any]]:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty:
            yield f"{where}({parameter.name})", _value(parameter.default)


def _fields(cls: type) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(cls):
        for f in dataclasses.fields(cls):
            made = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
            if made is not dataclasses.MISSING:
                yield f"{cls.__qualname__}.{f.name}", _value(made)
    elif issubclass(cls, msgspec.Struct):
        made_with = inspect.signature(cls).parameters.values()
        by_place = [p.name for p in made_with if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        config = cls.__struct_config__
        yield f"{cls.__qualname__}: frozen", config.frozen
        yield f"{cls.__qualname__}: forbids unknown fields", config.forbid_unknown_fields
        yield f"{cls.__qualname__}: given by place", by_place
        for field in msgspec.structs.fields(cls):
            made = (
                field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
            )
            if made is not msgspec.NODEFAULT:
                yield f"{cls.__qualname__}.{field.name}", _value(made)


def _attributes(cls: type) -> Iterator[tuple[str, Any]]:
    fields = getattr(cls, "__dataclass_fields__", {})
    for name, value in sorted(vars(cls).items()):
        if name.startswith("_") or name in fields or CONSTANT.fullmatch(name):
            continue
        if isinstance(value, bool | int | float | str | tuple | None):
            yield f"{cls.__qualname__}.{name}", _value(value)


def _of_class(cls: type) -> Iterator[tuple[str, Any]]:
    yield from _constants(cls, f"{cls.__qualname__}.")
    yield from _attributes(cls)
    yield from _fields(cls)
    for name, member in sorted(vars(cls).items()):
        function = getattr(member, "__func__", member)
        made = dataclasses.is_dataclass(cls) and name == "__init__"
        written = not made and (name == "__init__" or not name.startswith("__"))
        if inspect.isfunction(function) and written and function.__qualname__ == f"{cls.__qualname__}.{name}":
            yield from _defaults(function, f"{cls.__qualname__}.{name}")


def choices(module: str) -> list[list[Any]]:
    """[name, value] of everything in a module that is chosen outside of the bodies of its functions."""
    m = importlib.import_module(module)
    out = list(_constants(m, ""))
    for name, member in sorted(vars(m).items()):
        if getattr(member, "__module__", None) != module:
            continue
        if inspect.isclass(member):
            out += _of_class(member)
        elif inspect.isfunction(inspect.unwrap(member)) and member.__name__ == name:
            out += _defaults(inspect.unwrap(member), name)
    return [list(pair) for pair in out]


CASES = {module: partial(choices, module) for module in MODULES}


@pytest.mark.parametrize("module", MODULES)
def test_what_is_chosen_is_what_is_kept(module):
    check("constants", module, choices(module), tiny=0.0)
