"""Registries: what can be extended registers itself by a decorator, in the module that defines it.

A registry belongs to a folder. It imports the folder's modules when something is first asked for,
so nobody keeps a list of them: a new module in the folder is a new entry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Generic, TypeVar

from ..errors import UsageError

Entry = TypeVar("Entry")
Registered = TypeVar("Registered")


class Registry(Generic[Entry]):
    """Entries by name. what: what an entry is, for error texts. folder: the package whose modules
    register entries. A module or package of the folder that has an entry's name is tried first."""

    def __init__(self, what: str, folder: str):
        self.what = what
        self.folder = folder
        self._entries: dict[str, Entry] = {}
        self._complete = False

    def add(self, name: str) -> Callable[[Registered], Registered]:
        """A decorator that registers a class or function under this name."""

        def register(entry: Registered) -> Registered:
            if name in self._entries:
                raise ValueError(f"there are two {self.what}s of the name {name!r}")
            self._entries[name] = entry  # type: ignore[assignment]
            return entry

        return register

    def get(self, name: str) -> Entry:
        """The entry of this name; UsageError lists the names there are."""
        if isinstance(name, str) and name not in self._entries:
            self._load(name)
        if not isinstance(name, str) or name not in self._entries:
            raise UsageError(
                f"there is no {self.what} {name!r}; choose one of {', '.join(self.names())}"
            )
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is an entry of this name, in a module of this name or in one that was
        imported before. It imports no other module."""
        if isinstance(name, str) and name not in self._entries:
            self._load_own(name)
        return name in self._entries

    def names(self) -> tuple[str, ...]:
        """Every name, in the order of the alphabet."""
        self._load_all()
        return tuple(sorted(self._entries))

    def __iter__(self) -> Iterator[Entry]:
        """The entries in the order of their names."""
        return iter([self._entries[name] for name in self.names()])

    def _load(self, name: str) -> None:
        """Import the module of this name, where the folder has one, else all modules."""
        self._load_own(name)
        if name not in self._entries:
            self._load_all()

    def _load_own(self, name: str) -> None:
        modules = {module.name for module in iter_modules(sys.modules[self.folder].__path__)}
        if name in modules:
            import_module(f"{self.folder}.{name}")

    def _load_all(self) -> None:
        if not self._complete:
            for module in sorted(iter_modules(sys.modules[self.folder].__path__)):
                import_module(f"{self.folder}.{module.name}")
            self._complete = True
