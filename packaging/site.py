"""The documents as a site: `python packaging/site.py --to build` makes build/pages (Markdown) and
build/site (HTML), the notebooks as pages. A link that leads nowhere is an error."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("docs", "bench")
FILES = (
    "README.md",
    "ARCHITECTURE.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=ROOT / "build", metavar="FOLDER")
    folder = parser.parse_args().to.resolve()
    pages, site = folder / "pages", folder / "site"
    for made in (pages, site):
        shutil.rmtree(made, ignore_errors=True)
    for name in FOLDERS:
        shutil.copytree(
            ROOT / name, pages / name, ignore=shutil.ignore_patterns("__pycache__", "out")
        )
    for name in FILES:
        shutil.copy(ROOT / name, pages)
    shutil.copytree(
        ROOT / "examples", pages / "examples", ignore=shutil.ignore_patterns("*.py", "__pycache__")
    )
    notebooks = [sys.executable, ROOT / "examples" / "notebooks.py", "--pages", pages / "examples"]
    subprocess.run(notebooks, check=True)
    build = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "-q",
        "--strict",
        "-f",
        ROOT / "mkdocs.yml",
        "-d",
        site,
    ]
    given = {"FASTDP_PAGES": str(pages), "NO_MKDOCS_2_WARNING": "1"}
    sys.exit(subprocess.run(build, env={**os.environ, **given}).returncode)


if __name__ == "__main__":
    main()
