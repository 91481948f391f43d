"""The registry of mechanisms, and what a mechanism says of itself.

A mechanism is a module or package of this folder that has the mechanism's name. Its config class
registers itself with `@mechanism(...)`. Everything that lists mechanisms asks this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from .._util.registries import Registry

DEFAULT = "cliquetree"
"""The mechanism of a run that names none: it suits any table and needs no settings."""

Registered = TypeVar("Registered", bound=type)


class Traits(Struct, frozen=True, kw_only=True):
    """What a mechanism can do, for those who run it.

    about: what it is for, as in the table of docs/guide/choosing.md. max_cells_steps: labels of the
    steps whose questions depend on `max_cells`; None: any step's may. deals_ids: rows are made
    first and user ids dealt to them afterwards. makes_users: a user's rows are made together, or
    counted per user. users_by_default: `ids.source = "auto"` is "users" without public data.
    may_choose_clip: `clip` may be "private". fits_sparse: its fit needs scipy.sparse, imported
    while rows are read. corrects_clipped_total: for rows that a fixed clip left out. for_linked: it
    fits any table, and draws rows from a model given some columns. takes_prior: marginals of
    `Job.prior` are tested privately, and used where they hold. weighs: columns and pairs that matter
    (`Config.important`) are measured better. no_constraints: why its rows cannot
    keep a schema's constraints; empty if they do.
    """

    about: str = ""
    max_cells_steps: tuple[str, ...] | None = ()
    deals_ids: bool = True
    makes_users: bool = False
    users_by_default: bool = False
    may_choose_clip: bool = False
    fits_sparse: bool = False
    corrects_clipped_total: bool = False
    for_linked: bool = False
    takes_prior: bool = False
    weighs: bool = False
    no_constraints: str = ""


MECHANISMS: Registry[Any] = Registry("mechanism", __package__, "fastdp.mechanisms")


def mechanism(name: str, **traits: Any) -> Callable[[Registered], Registered]:
    """A decorator that registers a config class and gives it a name and traits. Traits that are
    left out are those of the class that it extends."""

    def register(config: Registered) -> Registered:
        config.name = name  # type: ignore[attr-defined]
        config.traits = replace(config.traits, **traits)  # type: ignore[attr-defined]
        return MECHANISMS.add(name)(config)

    return register


def names() -> tuple[str, ...]:
    """Every mechanism's name."""
    return MECHANISMS.names()


def get(name: str) -> Any:
    """The config class of a mechanism; UsageError lists the names there are."""
    return MECHANISMS.get(name)


def names_where(fit: Callable[[Traits], bool]) -> list[str]:
    """The mechanisms whose traits fit."""
    return [name for name in names() if fit(get(name).traits)]
