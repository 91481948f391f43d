"""Who takes part: fastdp's mechanisms, plug-ins by name, peers, floors and ceilings."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path

from fastdp.mechanisms.registry import DEFAULT, MECHANISMS

from . import peers

ROOT = Path(__file__).resolve().parents[2]


def version_of(root: Path) -> str:
    """The version of a checkout with a digest of its sources, so that runs of other code are not
    taken for runs of this one: "0.1.0+1a2b3c4d". It is the same before and after a build."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    sums = hashlib.sha256()
    for folder, suffixes in SOURCES.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in suffixes:
                sums.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return f"{project['version']}+{sums.hexdigest()[:8]}"


SOURCES = {"fastdp": (".py", ".pyx", ".pxd", ".toml"), "csrc": (".c", ".h")}
"""Suffixes of what is written by hand. A build puts C files of its own into fastdp/_core."""
VERSION = version_of(ROOT)
"""Of the fastdp of this checkout, installed or not."""
FLOORS = ("uniform", "independent")
"""Rows without any information, and every column by itself with all of the budget."""
CEILINGS = ("bootstrap", "split")
"""Not private: true rows drawn with replacement, and the rows that were held out."""
OURS = (DEFAULT, "mst", "aim")
USUAL = (DEFAULT, "mst", *FLOORS, *CEILINGS)
NO_EPSILON = ("uniform", *CEILINGS)
"""Their rows do not depend on epsilon."""


@dataclass(frozen=True)
class Contestant:
    """kind: "fastdp", "plug-in", "peer", "floor" or "ceiling". version: of the code that makes the
    rows. command: of a peer, what is run, before the arguments of `peer_program`."""

    name: str
    kind: str
    version: str
    command: tuple[str, ...] = ()

    @property
    def private(self) -> bool:
        return self.name not in NO_EPSILON


def named(name: str, given: dict[str, tuple[str, ...]] | None = None) -> Contestant:
    """The contestant of a name: a mechanism of fastdp or of an installed plug-in, a floor, a
    ceiling, or a peer ("mbi MST"). given: peers that the caller brings, by name. UsageError lists
    the mechanisms there are."""
    if given and name in given:
        return Contestant(name, "peer", "given", given[name])
    if name in CEILINGS:
        return Contestant(name, "ceiling", "1")
    if name == "uniform":
        return Contestant(name, "floor", "1")
    if name in FLOORS:
        return Contestant(name, "floor", VERSION)
    if name in peers.NAMES:
        library = name.split()[0]
        return Contestant(name, "peer", peers.version(library), peers.command(library))
    MECHANISMS.get(name)
    if plugin := MECHANISMS.plugin(name):
        return Contestant(name, "plug-in", f"{plugin['package']} {plugin['version']}")
    return Contestant(name, "fastdp", VERSION)
