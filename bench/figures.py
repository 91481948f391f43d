"""Figures in sentences of README and docs/, bound to the files in bench/results/ by docs/figures.toml.

`python -m bench.readme` writes them, with all other figures, and `--check` fails where a page says
something else. `python -m bench.figures` counts, page by page, the figures that no file gives.

A binding names a page, a piece of its text with {} in place of each figure, and where each figure
is kept:

    [[figure]]
    page = "docs/guide/databases.md"
    text = "the database worked {} s"
    values = [{ of = "push_down", at = ["ways", "engine='sql'", "rounds"], as = ".1f" }]

`at` are keys; of a list, fields that choose one of its lines ({ kind = "sum" }). `per` (a second
`at`) divides, `times` multiplies, `bare = true` writes .12 for 0.12. With of = "scoreboard", `at` is
a table, an epsilon (0 for none), a mechanism and a measure: the mean over seeds. Tables of figures
have generators in `bench.readme`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from .machine import RESULTS
from .scoreboard import compare
from .scoreboard.page import PAGE as SCOREBOARD
from .scoreboard.store import Store

ROOT = Path(__file__).resolve().parents[1]
BINDINGS = ROOT / "docs" / "figures.toml"
NUMBER = r"([-+]?[\d.,]*\d)"
GENERATED = re.compile(r"```.*?```|<!-- made by.*?<!-- end.*?-->|`[^`]*`", re.S)
LOOKS_MEASURED = re.compile(
    r"(?<![\w.])\d*\.\d+|\d+ ?%|\d[\d,.]* (?:s|ms|MB|GB|minutes|seconds)\b|\b\d+x\b"
)


class Unbound(Exception):
    """A binding that cannot be followed; the text says which and why."""


@cache
def _file(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


@cache
def _scores() -> dict[tuple, float]:
    found = compare.cells(Store().records())
    return {(c.table, c.epsilon or 0, c.mechanism, c.measure): c.mean for c in found}


def looked_up(name: str, keys: list) -> float:
    """What a file holds under the keys; of the scoreboard, a mean over seeds."""
    if name == "scoreboard":
        return _scores()[tuple(keys)]
    here = _file(name)
    for key in keys:
        if isinstance(key, dict):
            (here,) = [line for line in here if key.items() <= line.items()]
        else:
            here = here[key]
    return here


def written(value: dict) -> str:
    """A figure as the page has it."""
    try:
        found = looked_up(value["of"], value["at"])
        if "per" in value:
            found /= looked_up(value["of"], value["per"])
    except (KeyError, ValueError, IndexError) as error:
        raise Unbound(f"{value['of']} has nothing at {value['at']}: {error}") from error
    text = format(found * value.get("times", 1), value.get("as", ",.3g"))
    return re.sub(r"^([-+]?)0\.", r"\1.", text) if value.get("bare") else text


def pattern(text: str) -> re.Pattern:
    """Finds a piece of text with any figures, wherever its lines are broken."""
    pieces = [r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in text.split("{}")]
    return re.compile(NUMBER.join(pieces))


def renewed(page: str, binding: dict) -> str:
    """The page with the figures of a binding."""
    figures = [written(value) for value in binding["values"]]
    found = list(pattern(binding["text"]).finditer(page))
    if len(found) != 1 or found[0].re.groups != len(figures):
        raise Unbound(f"{binding['page']} has {len(found)} times, with figures: {binding['text']}")
    out = page
    for group, figure in reversed(list(enumerate(figures, 1))):
        start, end = found[0].span(group)
        out = out[:start] + figure + out[end:]
    return out


def bindings() -> list[dict]:
    return tomllib.loads(BINDINGS.read_text("utf-8"))["figure"]


def pages(made: dict[Path, str]) -> dict[Path, str]:
    """The pages with bound figures, as they should be. made: those that other tools wrote."""
    out = dict(made)
    for binding in bindings():
        path = ROOT / binding["page"]
        page = out[path] if path in out else path.read_text("utf-8")
        out[path] = renewed(page, binding)
    return out


def typed() -> dict[str, int]:
    """How many figures of each page look measured and are neither bound, made by a command nor in
    code."""
    texts: dict[str, list[str]] = defaultdict(list)
    for binding in bindings():
        texts[binding["page"]].append(binding["text"])
    out = {}
    for path in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        name = path.relative_to(ROOT).as_posix()
        if path == SCOREBOARD:
            continue  # all of it is made
        page = path.read_text("utf-8")
        for text in texts[name]:
            page = pattern(text).sub("", page)
        count = len(LOOKS_MEASURED.findall(GENERATED.sub("", page)))
        if count:
            out[name] = count
    return out


def main() -> None:
    for name, count in sorted(typed().items(), key=lambda item: -item[1]):
        print(f"{count:6,} {name}")


if __name__ == "__main__":
    main()
