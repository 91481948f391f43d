"""Writes the snapshots anew: python -m tests.snapshots [NAME ...]"""

import sys
import tempfile
from pathlib import Path

from .cases import CASES, FOLDER, Place, shown


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        for name in names or CASES:
            (FOLDER / f"{name}.txt").write_text(shown(name, place), "utf-8")
    if not names:
        for path in FOLDER.glob("*.txt"):
            if path.stem not in CASES:
                path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
