"""The registry of column kinds: every module of `kinds/` adds its class by the kind's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .._util.registries import Registry
from . import kinds
from .columns import SourceColumn

KINDS: Registry[type[SourceColumn]] = Registry("kind of column", kinds.__name__)
ORDER = ("categorical", "string", "integer", "numeric", "timestamp", "derived")
"""The kinds that lists name first; others follow in the order of the alphabet."""

Registered = TypeVar("Registered", bound=type[SourceColumn])


def kind(name: str, *others: str, internal: bool = False) -> Callable[[Registered], Registered]:
    """A decorator that registers a class under the name of its kind, and under further names.
    internal: no document of a user has it, and no list names it."""

    def register(column: Registered) -> Registered:
        column.kind = name
        for one in (name, *others):
            KINDS.add(one)(column)
        if internal:
            _INTERNAL.update((name, *others))
        return column

    return register


_INTERNAL: set[str] = set()


def documented() -> tuple[str, ...]:
    """The kinds that schema documents may name."""
    names = [name for name in KINDS.names() if name not in _INTERNAL]
    return tuple(sorted(names, key=lambda name: (name not in ORDER, _place(name), name)))


def _place(name: str) -> int:
    return ORDER.index(name) if name in ORDER else 0
