"""Registries: what can be extended registers itself by a decorator, in the module that defines it.

A registry belongs to a folder. It imports the folder's modules when something is first asked for,
so nobody keeps a list of them: a new module in the folder is a new entry. Packages outside add
entries by entry points of Python packaging. Such a plug-in is imported only when somebody names
its entry; it is never among those that are listed or tried in turn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Generic, TypeVar

from ..errors import UsageError

Entry = TypeVar("Entry")
Registered = TypeVar("Registered")


class Registry(Generic[Entry]):
    """Entries by name. what: what an entry is, for error texts. folder: the package whose modules
    register entries; a module of it that has an entry's name is tried first. group: the group of
    entry points by which packages outside add entries; empty: they cannot."""

    def __init__(self, what: str, folder: str, group: str = ""):
        self.what = what
        self.folder = folder
        self.group = group
        self._entries: dict[str, Entry] = {}
        self._outside: dict[str, Entry] = {}
        self._packages: dict[str, dict[str, str]] = {}
        self._complete = False

    def add(self, name: str, module: str | None = None) -> Callable[[Registered], Registered]:
        """A decorator that registers a class or function under this name. module: where it is
        defined, if it does not say so itself."""

        def register(entry: Registered) -> Registered:
            where = module or str(getattr(entry, "__module__", ""))
            own = where == self.folder or where.startswith(f"{self.folder}.")
            if name in self._entries or name in self._outside:
                raise ValueError(f"there are two {self.what}s of the name {name!r}")
            place: dict[str, Any] = self._entries if own else self._outside
            place[name] = entry
            return entry

        return register

    def get(self, name: str) -> Entry:
        """The entry of this name; UsageError lists the names there are."""
        if isinstance(name, str):
            if name not in self and name not in self._outside:
                self._load_all()
            if name not in self._entries and name not in self._outside:
                self._load_plugin(name)
            if name in self._entries:
                return self._entries[name]
            if name in self._outside:
                return self._outside[name]
        raise UsageError(
            f"there is no {self.what} {name!r}; choose one of {', '.join(self.names())}"
        )

    def __contains__(self, name: object) -> bool:
        """Whether fastdp has an entry of this name, in a module of this name or in one that was
        imported before. It imports no other module."""
        if isinstance(name, str) and name not in self._entries:
            self._load_own(name)
        return name in self._entries

    def registered(self, name: str) -> bool:
        """Whether there is an entry of this name, of fastdp or of a caller that registered one. It
        imports fastdp's modules, and no plug-in."""
        if name not in self and name not in self._outside:
            self._load_all()
        return name in self._entries or name in self._outside

    def outside(self, name: str) -> bool:
        """Whether a plug-in has an entry of this name. It imports no plug-in."""
        return name in self._outside or bool(self._entry_points(name))

    def plugin(self, name: str) -> dict[str, str] | None:
        """What a statement says of an entry from outside: what it is, its name, and the package
        with its version. None: the entry is fastdp's own."""
        if name not in self._outside:
            return None
        entry = self._outside[name]
        unknown = {"package": str(getattr(entry, "__module__", "?")), "version": "not installed"}
        return {"kind": self.what, "name": name} | self._packages.get(name, unknown)

    def name_of(self, entry: Entry) -> str:
        """The name under which an entry is registered; empty if it is not."""
        known = {**self._entries, **self._outside}
        return next((name for name, other in known.items() if other is entry), "")

    def names(self) -> tuple[str, ...]:
        """The names of fastdp's own entries, in the order of the alphabet."""
        self._load_all()
        return tuple(sorted(self._entries))

    def __iter__(self) -> Iterator[Entry]:
        """fastdp's own entries in the order of their names."""
        return iter([self._entries[name] for name in self.names()])

    def _load_own(self, name: str) -> None:
        modules = {module.name for module in iter_modules(sys.modules[self.folder].__path__)}
        if name in modules:
            import_module(f"{self.folder}.{name}")

    def _load_all(self) -> None:
        if not self._complete:
            for module in sorted(iter_modules(sys.modules[self.folder].__path__)):
                import_module(f"{self.folder}.{module.name}")
            self._complete = True

    def _entry_points(self, name: str) -> list[Any]:
        from importlib.metadata import entry_points

        return list(entry_points(group=self.group, name=name)) if self.group else []

    def _load_plugin(self, name: str) -> None:
        """Import the plug-in that registers an entry of this name; UsageError if several do, or it
        fails."""
        found = self._entry_points(name)
        if not found:
            return
        packages = [f"{point.dist.name} {point.dist.version}" for point in found]
        if len(found) > 1:
            raise UsageError(
                f"the {self.what} {name!r} is in several installed packages"
                f" ({', '.join(packages)}): uninstall all but one"
            )
        point = found[0]
        try:
            point.load()
        except (ImportError, AttributeError) as error:
            raise UsageError(
                f"the {self.what} {name!r} of package {packages[0]} cannot be imported: {error}"
            ) from error
        if name not in self._outside:
            raise UsageError(
                f"package {packages[0]} registers no {self.what} {name!r} where its entry point"
                f" says ({point.value}); see docs/guide/plugins.md"
            )
        self._packages[name] = {"package": point.dist.name, "version": point.dist.version}
