"""The structure in numbers: `python -m bench.structure [CHECKOUT ...]` prints places, imports and
circles.

A place is a folder of the package or a file at its root. Imports are those of
`tests/test_imports.py`: at the top of a file and inside functions, without those that only name a
type.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests import test_imports as rules


def count(root: Path) -> dict[str, int]:
    """Of one checkout: places, imports between two places, modules, imports between two modules,
    circles."""
    rules.PACKAGE = root / "fastdp"
    edges = rules.graph()
    modules = {m for m in edges if m}
    links = {(a, b) for a in modules for b in edges[a] if b in modules or b[:1] == ("_core",)}
    return {
        "places": len({m[0] for m in modules}),
        "imports between places": len({(a[0], b[0]) for a, b in links if a[0] != b[0]}),
        "modules": len(modules),
        "imports between modules": len(links),
        "circles": len(rules.circles(edges)),
    }


if __name__ == "__main__":
    for root in sys.argv[1:] or [Path(__file__).parents[1]]:
        print(root, count(Path(root)))
