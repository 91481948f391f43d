"""A source is decided once, at the door: how it is read, whose rows it has, what is said of it.

A kind of source is a class in a module of this folder, registered with `@SOURCES.add(NAME)`. What
comes after the door asks the object and never looks at what the caller gave.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ..._util.registries import Registry
from ...errors import DataError, UsageError
from ...schema.dialect import Dialect
from ..parts import Part

if TYPE_CHECKING:
    from ...schema import Schema
    from ..table import Table


class Source:
    """Rows that a caller gave. A subclass states how they are read and opens them.

    given: what the caller gave. engines: names of the engines that can count the rows, the default
    first. again: the rows can be read more than once. opens_freely: its columns' names and types
    are known before a row is read or a query is run. last: asked after all other kinds.
    """

    engines: ClassVar[tuple[str, ...]] = ("local",)
    last: ClassVar[bool] = False
    again: bool = True
    opens_freely: bool = True

    def __init__(self, given: Any):
        self.given = given

    @classmethod
    def takes(cls, given: Any) -> bool:
        """Whether what the caller gave is of this kind. It imports no library."""
        raise NotImplementedError

    def parts(self, dialect: Dialect) -> list[Part]:
        """The rows, in a fixed order; names and types are known, and no row is read yet. DataError
        if they cannot be opened. dialect: of text files."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """What error texts call it: the type of what was given."""
        return type(self.given).__name__

    @property
    def label(self) -> str:
        """What a statement calls it: a name without the path of its folder."""
        return f"a {self.kind} in memory"

    @property
    def title(self) -> str | None:
        """The name of a schema that is made of its columns."""
        return None

    @property
    def plugin(self) -> dict[str, str] | None:
        """What a statement says of a source from outside; None: it is fastdp's own."""
        return SOURCES.plugin(SOURCES.name_of(type(self)))

    @property
    def single(self) -> list[Source]:
        """The sources that it consists of: itself, unless it is a list."""
        return [self]

    @property
    def encoded(self) -> Table | None:
        """The rows, if they are encoded already."""
        return None

    @property
    def schema(self) -> Schema | None:
        """The schema of rows that are encoded already."""
        return None if self.encoded is None else self.encoded.schema

    @property
    def public(self) -> bool:
        """Whether the rows were read as public rows."""
        return self.encoded is not None and self.encoded.public

    def why_not_learnt(self, domains: bool) -> str:
        """Why private domains (without `domains`: only means within bins) cannot be found in it;
        empty if they can."""
        if self.again:
            return ""
        return (
            f"finding a private domain reads the rows several times, and a {self.kind}"
            " can be read only once; write it to a file, or give a frame or table"
        )

    def why_not_diagnosed(self) -> str:
        """Why its values cannot be looked at beside the run; empty if they can."""
        if self.again:
            return ""
        return "diagnose reads the values twice: give a path or frame, not a Table or stream"

    def pin(self, before: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        """Fix what is read from now on, and describe it in plain data, for the owner alone; None if
        it cannot be fixed. before: what an interrupted run had fixed. A source with versions reads
        that version again, or raises DataError."""
        return None

    def changes(self) -> str:
        """What changed since `pin`, for people; empty if nothing did, or nobody can know."""
        return ""

    @property
    def version(self) -> Mapping[str, Any] | None:
        """The version that is read, for the statement; None if the source has no versions."""
        return None

    def paths(self) -> Iterable[str]:
        """The paths of its files, by which it is recognised; DataError if there are none."""
        return ()

    def held(self) -> Iterable[Any]:
        """Its columns in memory, by which it is recognised."""
        return ()

    def files(self) -> set[tuple[Any, Any]]:
        """What identifies every file of it: (device, inode), or (address, tag)."""
        try:
            names = list(self.paths())
        except DataError:  # there is no such file: opening the source will raise this error again
            return set()
        return {place for name in names for place in _place(name)}


SOURCES: Registry[type[Source]] = Registry("source", __package__, "fastdp.sources")


def source_of(given: Any) -> Source:
    """The door: the source that a caller's argument is. A source is returned unchanged."""
    if isinstance(given, Source):
        return given
    kinds = sorted(SOURCES, key=lambda kind: kind.last)
    return next(kind(given) for kind in kinds if kind.takes(given))


def source(name: str, given: Any) -> Source:
    """A source of a kind that is named, in place of the one that its type would decide.

    Parameters
    ----------
    name : str
        The kind: one of fastdp's own, or one that an installed package adds (docs/guide/plugins.md), which is
        imported here. A plug-in sees the private rows: use only one that you trust.
    given : object
        What that kind of source takes, such as a path or an address.

    Returns
    -------
    Source
        For `fastdp.read`, `fastdp.synthesize` and everything else that takes a source.
    """
    kind = SOURCES.get(name)
    if not kind.takes(given):
        raise UsageError(f"source {name!r} does not take a {type(given).__name__}: {kind.__doc__}")
    return kind(given)


def open_parts(given: Any, dialect: Dialect | None = None) -> list[Part]:
    """The parts of a source in a fixed order (files by name). DataError if one cannot be opened.
    dialect: the dialect of text files."""
    return source_of(given).parts(Dialect() if dialect is None else dialect)


def module_of(given: Any) -> str:
    """The library that a value comes from, which need not be imported to tell."""
    return type(given).__module__.split(".")[0]


def _place(path: str) -> Iterator[tuple[int, int]]:
    try:
        status = os.stat(path)
    except OSError:
        return
    yield status.st_dev, status.st_ino
