"""The registry: every mechanism's name, with the module and the class of its config.

A new mechanism needs its module, a line here, a test, a row in docs/guide/choosing.md (or a page of
its own) and a line in the changelog. Everything else that lists mechanisms asks this module.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..errors import UsageError

_CONFIGS = {
    "adagrid": ("adagrid", "AdaGrid"),
    "cliquetree": ("cliquetree", "CliqueTree"),
    "aim": ("aim", "AIM"),
    "mst": ("mst", "MST"),
    "tworound": ("tworound", "TwoRound"),
    "archetypes": ("archetypes", "Archetypes"),
    "usercounts": ("usercounts.mechanism", "UserCounts"),
}
DEFAULT = "cliquetree"
"""The mechanism of a run that names none: it suits any table and needs no settings."""


def names() -> tuple[str, ...]:
    """Every mechanism's name."""
    return tuple(_CONFIGS)


def get(name: str) -> Any:
    """The config class of a mechanism; UsageError lists the names there are."""
    if name not in _CONFIGS:
        raise UsageError(f"there is no mechanism {name!r}; choose one of {', '.join(_CONFIGS)}")
    module, attribute = _CONFIGS[name]
    return getattr(import_module(f"{__package__}.{module}"), attribute)


def names_where(fit: Callable[[Any], bool]) -> list[str]:
    """The mechanisms whose config classes fit."""
    return [name for name in _CONFIGS if fit(get(name))]
