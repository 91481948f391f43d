"""Pages on extending fastdp: who follows one, and writes only the file that it names, has the new
thing working. The steps are applied to a copy of the package."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {
    page.stem: page.read_text("utf-8")
    for page in sorted((ROOT / "docs" / "contributing").glob("adding-*.md"))
}
WRITE = re.compile(r"^Write \*\*([^*]+)\*\*:\n\n```python\n(.*?)```", re.M | re.S)
CHECK = re.compile(r"^Check it:\n\n```python\n(.*?)```", re.M | re.S)


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the package without its C sources; its bytecode is still good."""
    place = tmp_path_factory.mktemp("copy")
    unneeded = shutil.ignore_patterns("*.c", "*.pyx")
    shutil.copytree(ROOT / "fastdp", place / "fastdp", ignore=unneeded)
    return place


@pytest.mark.parametrize("name", [name for name, text in PAGES.items() if WRITE.search(text)])
def test_following_a_page_changes_only_the_file_that_it_names(copied, name):
    (path, module), (check,) = WRITE.findall(PAGES[name])[0], CHECK.findall(PAGES[name])
    new = copied / path
    assert not new.exists(), "the page adds a file, and changes none"
    new.write_text(module, "utf-8")
    try:
        dotted = path.removesuffix(".py").replace("/", ".")
        # A name that the check uses of the new module is imported; else the registry has to find it.
        used = [name for name in re.findall(r"^class (\w+)", module, re.M) if f"{name}(" in check]
        program = f"from {dotted} import {', '.join(used)}\n{check}" if used else check
        proof = f"import fastdp\nassert fastdp.__file__.startswith({str(copied)!r})\n"
        done = subprocess.run(
            [sys.executable, "-c", proof + program],
            capture_output=True,
            text=True,
            cwd=copied,
            env={**os.environ, "PYTHONPATH": str(copied)},
        )
        assert done.returncode == 0, done.stderr[-2000:]
    finally:
        new.unlink()


def test_there_is_a_page_for_each_kind_of_extension():
    kinds = {"mechanism", "metric", "source", "engine", "column-kind"}
    assert {name.removeprefix("adding-").split("-", 1)[1] for name in PAGES} == kinds
