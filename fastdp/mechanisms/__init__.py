"""One file or folder per mechanism. This file is the registry: each name with the config class whose `run()`
is the mechanism.

A mechanism sees private data through the session it is handed, and nowhere else: it imports neither `tables`
nor `engines` nor what opens sessions. `base` says what a mechanism is, `parts/` holds what several share.
"""

from __future__ import annotations

from importlib import import_module

from ..errors import UsageError
from .base import Config

_WHERE = {
    "adagrid": ("fastdp.mechanisms.adagrid", "AdaGrid"),
    "cliquetree": ("fastdp.mechanisms.cliquetree", "CliqueTree"),
    "aim": ("fastdp.mechanisms.aim", "AIM"),
    "mst": ("fastdp.mechanisms.mst", "MST"),
    "tworound": ("fastdp.mechanisms.tworound", "TwoRound"),
    "archetypes": ("fastdp.mechanisms.archetypes", "Archetypes"),
    "usercounts": ("fastdp.mechanisms.usercounts.mechanism", "UserCounts"),
}


def names() -> tuple[str, ...]:
    """Every mechanism's name."""
    return tuple(_WHERE)


def get(name: str) -> type[Config]:
    """The class of a mechanism; UsageError lists the names there are."""
    if name not in _WHERE:
        raise UsageError(f"no mechanism {name!r}; there are {', '.join(_WHERE)}")
    module, attribute = _WHERE[name]
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise UsageError(f"mechanism {name!r} is not part of this build of fastdp") from error
