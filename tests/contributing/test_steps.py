"""Pages on extending fastdp: who follows one, and writes only the file that it names, has the new
thing working. The steps are applied to a copy of the package."""

import json
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
CHECK = re.compile(r"^Check it:\n\n(?:<!--[^>]*-->\n)?```python\n(.*?)```", re.M | re.S)


STEPS = {name: WRITE.findall(text) for name, text in PAGES.items() if WRITE.search(text)}


def program(name):
    """The checks of a page, as one program. A name that it uses of the new module is imported; else the
    registry has to find it."""
    check = "".join(CHECK.findall(PAGES[name]))
    imports = ""
    for path, module in STEPS[name]:
        dotted = path.removesuffix(".py").replace("/", ".")
        used = [word for word in re.findall(r"^class (\w+)", module, re.M) if f"{word}(" in check]
        imports += f"from {dotted} import {', '.join(used)}\n" if used else ""
    return imports + check


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """What went wrong on each page: all are followed in a copy of the package without its C sources
    (its bytecode is still good), and one process checks them one after another."""
    place = tmp_path_factory.mktemp("copy")
    unneeded = shutil.ignore_patterns("*.c", "*.pyx")
    shutil.copytree(ROOT / "fastdp", place / "fastdp", ignore=unneeded)
    for steps in STEPS.values():
        for path, module in steps:
            assert not (place / path).exists(), "the page adds a file, and changes none"
            (place / path).write_text(module, "utf-8")
    programs = {name: program(name) for name in STEPS}
    done = subprocess.run(
        [sys.executable, "-c", FOLLOW],
        input=json.dumps([str(place), programs]),
        capture_output=True,
        text=True,
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


FOLLOW = """
import json, sys, traceback
import fastdp
place, programs = json.load(sys.stdin)
assert fastdp.__file__.startswith(place)
wrong = {}
for name, program in programs.items():
    try:
        exec(compile(program, name, "exec"), {"__name__": name})
    except Exception:
        wrong[name] = traceback.format_exc()
print(json.dumps(wrong))
"""


@pytest.mark.parametrize("name", STEPS)
def test_following_a_page_changes_only_the_file_that_it_names(followed, name):
    assert name not in followed, followed[name][-2000:]


def test_there_is_a_page_for_each_kind_of_extension():
    kinds = {"mechanism", "metric", "source", "engine", "database", "column-kind"}
    assert {name.removeprefix("adding-").split("-", 1)[1] for name in PAGES} == kinds
