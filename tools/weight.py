"""What the dependencies of fastdp weigh: `python -m tools.weight [EXTRA ...]`.

Prints, for every direct dependency in this environment, its megabytes on disk with what only it
brings along (bytecode is left out). Run it in a fresh environment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution

try:
    from packaging.requirements import Requirement
except ImportError:  # a fresh environment has the copy of pip alone
    from pip._vendor.packaging.requirements import Requirement  # type: ignore[assignment]

BYTES = 1_000_000


def needs(name: str, extras: Iterable[str] = ()) -> set[str]:
    """Names of the packages that one asks for directly, here."""
    environments = [{"extra": extra} for extra in ("", *extras)]
    asked = map(Requirement, distribution(name).requires or ())
    return {
        r.name.lower()
        for r in asked
        if r.marker is None or any(r.marker.evaluate(given) for given in environments)
    }


def reached(name: str) -> set[str]:
    """A package and everything that it brings along."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += needs(one)
    return found


def megabytes(name: str) -> float:
    """Size of a package's files, without bytecode."""
    files = distribution(name).files or ()
    kept = [f.locate() for f in files if f.suffix != ".pyc"]
    return sum(f.stat().st_size for f in kept if f.is_file()) / BYTES  # type: ignore[union-attr]


def main() -> None:
    direct = sorted(needs("fastdp", sys.argv[1:]))
    for name in ["fastdp", *direct]:
        try:
            others = set().union(*(reached(other) for other in direct if other != name))
            own = {name} if name == "fastdp" else {name} | reached(name) - others
            size = sum(megabytes(one) for one in own)
        except PackageNotFoundError as error:
            print(f"{name:<24} not installed ({error})")
            continue
        along = ", ".join(sorted(own - {name}))
        print(f"{name:<24} {size:7.1f} MB" + (f"   with {along}" if along else ""))


if __name__ == "__main__":
    main()
