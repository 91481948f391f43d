"""Figures in sentences of README and docs/, bound to the files in bench/results/ by docs/figures.toml.

`python -m bench.readme` writes them, with all other figures, and `--check` fails where a page says
something else.

`python -m bench.figures` lists what pages for users say without a source, and fails if there is any:
numbers that look measured, and are neither bound, nor between marks, nor in code, nor a setting
(an epsilon, a share of mu^2, a version). What is not measured after all is listed in docs/figures.toml
with the reason:

    [[stated]]
    page = "docs/explain/noise.md"
    why = "a proof: its numbers follow on the page"

`text`, a piece of the page, limits that to it. Research notes are records of their day; `--notes`
lists their typed tables, with the commit and the day at which each was written down.

A binding names a page, a piece of its text with {} in place of each figure, and where each figure
is kept:

    [[figure]]
    page = "docs/guide/databases.md"
    text = "the database worked {} s"
    values = [{ of = "push_down", at = ["ways", "engine='sql'", "rounds"], as = ".1f" }]

`at` are keys; of a list, fields that choose one of its lines ({ kind = "sum" }). `plus` and `per`
(further `at`) add and divide, `times` multiplies, `bare = true` writes .12 for 0.12. With of =
"fastdp.division", or any module of the package, `at` begins with the name of a constant. With of =
"scoreboard", `at` is a table, an epsilon (0 for none), a mechanism and a measure: the mean over seeds.
Tables of figures have generators in `bench.readme`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from .machine import kept
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
NOTES = ROOT / "docs" / "research"
REFERENCE = "<!-- made by python -m tools.reference -->"
AMOUNT = r"[-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e-?\d+)?"
NAMED = (
    "epsilons?|delta|mu²|mu\\^2|mu|sigma|Pareto|Zipf|Weibull|log-normal|Python|glibc|numpy|pyarrow|SDNist"
    "|Croissant"
)
"""What a number after it is a setting of, or its version."""
SETTING = re.compile(
    rf"\b(?:{NAMED})(?: (?:of|is|are|above|below|at|from|to|or) )?[ (=]*{AMOUNT}"
    rf"(?:(?:, | and | or | to |/)(?:delta )?{AMOUNT})*"
    rf"|{AMOUNT} of (?:the run's )?mu(?:\^2|²)"
    r"|(?:95|99) % (?:intervals?|points?)|95 %(?= *\))|\b1\.96\b|\b1\.645\b"
)
"""A setting, a quantile, or the name of an interval: nobody measured it."""


class Unbound(Exception):
    """A binding that cannot be followed; the text says which and why."""


@cache
def _file(name: str) -> Any:
    return kept(name)


@cache
def _scores() -> dict[tuple, float]:
    found = compare.cells(Store().records())
    return {(c.table, c.epsilon or 0, c.mechanism, c.measure): c.mean for c in found}


def looked_up(name: str, keys: list) -> float:
    """What a file holds under the keys; of the scoreboard, a mean over seeds."""
    if name == "scoreboard":
        return _scores()[tuple(keys)]
    if name.startswith("fastdp."):
        here, keys = getattr(import_module(name), keys[0]), keys[1:]
    else:
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
        if "plus" in value:
            found += looked_up(value["of"], value["plus"])
        if "per" in value:
            found /= looked_up(value["of"], value["per"])
    except (KeyError, ValueError, IndexError, AttributeError) as error:
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


@cache
def tables(kind: str) -> list[dict]:
    """The entries of docs/figures.toml of one kind: `figure` or `stated`."""
    return tomllib.loads(BINDINGS.read_text("utf-8"))[kind]


def pages(made: dict[Path, str]) -> dict[Path, str]:
    """The pages with bound figures, as they should be. made: those that other tools wrote."""
    out = dict(made)
    for binding in tables("figure"):
        path = ROOT / binding["page"]
        page = out[path] if path in out else path.read_text("utf-8")
        out[path] = renewed(page, binding)
    return out


def unbound(name: str, page: str) -> str:
    """A page without the sentences whose figures are bound."""
    for binding in tables("figure"):
        if binding["page"] == name:
            page = pattern(binding["text"]).sub("", page)
    return page


def measured(name: str, page: str) -> list[str]:
    """The lines of a page, as far as their figures look measured and have no source."""
    page = unbound(name, page)
    return [line for line in GENERATED.sub("", page).splitlines() if LOOKS_MEASURED.search(line)]


def untraced(name: str, page: str, stated: list[dict]) -> list[str]:
    """Lines of a page for users with figures that have no source."""
    page = unbound(name, page)
    for one in stated:
        if one["page"] == name:
            page = pattern(one["text"]).sub("", page) if "text" in one else ""
    return measured(name, SETTING.sub("", GENERATED.sub("", page)))


def idle(stated: list[dict]) -> list[str]:
    """Exceptions of docs/figures.toml that no page needs any more."""
    out = []
    for one in stated:
        page = pages_for_users()[one["page"]]
        others = [other for other in stated if other is not one]
        if untraced(one["page"], page, others) == untraced(one["page"], page, stated):
            out.append(f"{one['page']}: {one.get('text', 'the page')}")
    return out


def pages_for_users() -> dict[str, str]:
    """README, guides, explanations, reference and tutorials, but for pages made by another tool."""
    out = {}
    for path in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        page = path.read_text("utf-8")
        if path.parent != NOTES and REFERENCE not in page:
            out[path.relative_to(ROOT).as_posix()] = page
    return out


def typed_tables(page: str) -> list[tuple[str, int]]:
    """(section, number of the line below the head) of each table of a note that no command makes."""
    out = []
    section = ""
    made = False
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("#"):
            section = line.lstrip("# ")
        made = line.startswith("<!-- made by") or (made and not line.startswith("<!-- end"))
        if line.startswith("|---") and not made:
            out.append((section, number))
    return out


def written_at(path: Path, number: int) -> str:
    """The commit and the day of the first row of a table: when its figures were recorded."""
    where = ["-L", f"{number + 1},{number + 1}", "--date=short", "--", str(path)]
    done = subprocess.run(
        ["git", "-C", str(ROOT), "blame", *where], capture_output=True, text=True, check=True
    )
    day = re.search(r"\d{4}-\d\d-\d\d", done.stdout)
    return f"{done.stdout.split(maxsplit=1)[0].lstrip('^')} {day[0] if day else ''}"


def notes() -> list[str]:
    """A line for each typed table of the research notes: page, section, commit and day."""
    out = []
    for path in sorted(NOTES.glob("*.md")):
        if path != SCOREBOARD:  # all of it is made
            for section, number in typed_tables(path.read_text("utf-8")):
                out.append(f"{written_at(path, number)}  {path.name}: {section}")
    return out


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--notes", action="store_true", help="when each table was written down")
    if parser.parse_args(arguments).notes:
        print("\n".join(notes()))
        return
    stated = tables("stated")
    found = [
        f"{name}: {line}"
        for name, page in pages_for_users().items()
        for line in untraced(name, page, stated)
    ]
    if found:
        sys.exit("\n".join([*found, f"{len(found)} lines have figures without a source"]))


if __name__ == "__main__":
    main()
