"""Tables of measurements in README and docs/, made from the files in bench/results/.

python -m bench.readme             writes them, and the page and the plot of the scoreboard
python -m bench.readme --check     fails if one is not what the files give

Tables of one file each are in `bench.blocks`, figures inside sentences in docs/figures.toml
(`bench.figures`); this command writes all of them.
"""

from __future__ import annotations

import argparse
import re
import sys
from math import comb
from pathlib import Path
from typing import Any

from . import blocks, figures
from .machine import kept
from .scoreboard import compare, page
from .scoreboard.store import Store

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
CLIQUETREE = ROOT / "docs" / "research" / "cliquetree.md"
BEGIN = "<!-- made by python -m bench.readme -->\n"
END = "<!-- end -->\n"
FIT_BEGIN = "<!-- made by python -m bench.fit and bench.readme -->\n"
FIT_END = "<!-- end of bench.fit -->\n"
TOO_WIDE = 0.6
"""A half-width above this part of a sum says next to nothing, and is not shown."""


def significant(value: float) -> str:
    """Two digits of a number: 0.065, 6.6, 12."""
    return f"{float(f'{value:.2g}'):,g}"


def times(value: float) -> str:
    """How many times as long: 43x, 1,130x."""
    return f"{float(f'{value:.3g}') if value >= 1000 else round(value):,.0f}x"


def counting() -> tuple[str, ...]:
    results = {result["title"]: result for result in kept("counting")["results"]}
    ways = results["10,000,000 simulated taxi rows"]["jobs"]["all 59"]
    names = {"duckdb": "DuckDB", "numpy": "numpy", "mbi": "mbi", "polars": "Polars"}
    slower = sorted((ways[key]["ratio"], name) for key, name in names.items())
    peers = ", ".join(f"{name} {times(ratio)}" for ratio, name in slower)
    return (
        "59 weighted marginals",
        f"{significant(ways['fastdp']['seconds'])} s",
        f"{peers} slower",
        "counting",
    )


def noise() -> tuple[str, ...]:
    lines = [
        line
        for line in kept("noise")["results"]
        if line["law"] == "gaussian" and line["scale"] >= 0.1
    ]
    ratios = [line["ratio"] for line in lines]
    own = f"{significant(max(line['fastdp_ns'] for line in lines))} ns a sample"
    peers = f"OpenDP {times(min(ratios))} to {times(max(ratios))} slower"
    return "exact Gaussian noise", own, peers, "noise"


def estimator() -> tuple[str, ...]:
    ways = kept("estimator")["adagrid-eps1"]["contestants"]
    ours = ways["fastdp"]
    mbi = ways["mbi accelerated"]
    slower = mbi["per_call"] / ours["per_call"]
    memory = mbi["peak_mb"] / ours["peak_mb"]
    return (
        "one call of the estimator, AdaGrid queries",
        f"{significant(1000 * ours['per_call'])} ms",
        f"mbi {times(slower)} slower, {times(memory)} the memory",
        "estimator",
    )


def sampling() -> tuple[str, ...]:
    ways = kept("estimator")["sampling"]["contestants"]
    ours = ways["1000000 fastdp"]["seconds"]
    ratios = sorted(ways[f"1000000 {name}"]["seconds"] / ours for name in ("mbi", "mbi extension"))
    peers = f"mbi {times(ratios[0])} to {times(ratios[1])} slower"
    return "1 million rows from a fitted model", f"{significant(ours)} s", peers, "estimator"


def job() -> tuple[str, ...]:
    record = kept("job-times")["found"]["10,000,000 rows, epsilon 1"]
    own = f"{significant(record['seconds'])} s, {record['peak_gb']:.1f} GB"
    return "whole job, Parquet to synthetic Parquet, epsilon 1", own, "none does it", "job times"


def adult() -> tuple[str, ...]:
    """The scoreboard's errors and processor seconds on adult: the default, and peers that ran."""
    cells = {
        (cell.mechanism, cell.measure): cell
        for cell in compare.cells(Store().records())
        if cell.table == "adult" and cell.epsilon == 1.0
    }

    def shown(who: str) -> str:
        two, three, used = (cells[who, name].mean for name in ("pairs", "triples", "processor"))
        return f"{two:.4f}, {three:.4f} in {significant(used)} s"

    rivals = sorted(who for (who, name), c in cells.items() if name == "pairs" and c.kind == "peer")
    peers = "; ".join(f"{who} {shown(who)}" for who in rivals) or f"fastdp's `mst` {shown('mst')}"
    return (
        "`cliquetree` on adult, epsilon 1: error of pairs, of triples, processor time",
        shown("cliquetree"),
        peers,
        "scoreboard",
    )


ROWS = (counting, noise, estimator, sampling, job, adult)


THREADED = {
    "call, adagrid": "one call of the estimator, AdaGrid queries",
    "fit, adagrid": "whole fit, AdaGrid queries",
    "fit, dual": "whole fit, whole marginals",
    "59 marginals": "59 marginals",
    "10M rows sampled": "10 million rows from a fitted model",
    "Parquet read": "Parquet read",
    "CSV read": "CSV read",
    "Parquet written": "Parquet written",
}


def threads() -> str:
    """The same work on one, two and 16 threads, in milliseconds."""
    record = kept("cores")
    found = record["found"]
    trips = f"{record['rows'] // 10**6} million trips"
    lines = [
        f"| {trips}, {record['machine']['architecture']}, milliseconds on | 1 thread | 2 | 16 |",
        "|---|---|---|---|",
    ]
    for name, work in THREADED.items():
        one, two, all_ = (found[name][n] for n in ("1", "2", "16"))
        cells = [f"{1e3 * s:,.{1 if s < 0.02 else 0}f}" for s in (one, two, all_)]
        lines.append(
            f"| {work} | {cells[0]} | {cells[1]} | {cells[2]} ({significant(one / all_)}x) |"
        )
    return "\n".join(lines) + "\n"


def table() -> str:
    lines = ["| work | fastdp | peers, in the same run | `python -m` |", "|---|---|---|---|"]
    lines += [
        f"| {work} | {own} | {peers} | `bench.{name}` |"
        for work, own, peers, name in (f() for f in ROWS)
    ]
    return "\n".join(lines) + "\n"


def holds(line: dict[str, Any]) -> bool:
    """Whether so few intervals of a line hold the truth at least once in twenty times, if each does
    with 95 %."""
    runs = line["runs"]
    ways = (comb(runs, k) * 0.95**k * 0.05 ** (runs - k) for k in range(line["held"] + 1))
    return sum(ways) >= 0.05


def half_width(line: dict[str, Any], unit: str) -> str:
    """A half-width with its unit, or a dash where a number cannot be quoted."""
    if line["half"] is None or line["half"] > TOO_WIDE or not holds(line):
        return "-"
    return f"{significant(100 * line['half'])} {unit}"


def fit() -> str:
    """Half-widths of 95 % intervals by number of people and epsilon."""
    lines = kept("fit")["lines"]
    sizes = sorted({int(name.split(" at ")[0]) for name in lines})
    kinds = {"share": "points", "capped sum": "%", "sum": "%"}
    out = ["| people | epsilon | a share | a sum, capped per person | a sum, not capped |"]
    out.append("|---|---|---|---|---|")
    for size in sizes:
        for epsilon in ("1", "3"):
            line = lines[f"{size} at {epsilon}"]
            cells = [half_width(line[kind], unit) for kind, unit in kinds.items()]
            out.append(" | ".join([f"| {size:,}", epsilon, *cells]) + " |")
    return "\n".join(out) + "\n"


def between(text: str, begin: str, made: str, end: str) -> str:
    """The text with what was made between two marks."""
    if begin not in text or end not in text:
        raise ValueError(f"the page has no {begin.strip()} ... {end.strip()}")
    found = re.escape(begin) + r".*?" + re.escape(end)
    return re.sub(found, lambda _: f"{begin}\n{made}\n{end}", text, flags=re.S)


def readme(text: str) -> str:
    """README with the tables of today's files between its marks."""
    text = between(text, FIT_BEGIN, fit(), FIT_END)
    return between(text, BEGIN, f"{table()}\n{threads()}", END)


def cliquetree(text: str) -> str:
    """The research notes with the scoreboard's comparison between the marks."""
    return between(text, BEGIN, page.never_worse(compare.cells(Store().records())), END)


WRITERS = {README: readme, CLIQUETREE: cliquetree}
"""Pages with marks, and what writes their tables."""
ASKED = re.compile(r"<!-- made by python -m bench\.readme: (\w+) -->\n(.*?)<!-- end -->\n", re.S)
"""A table of `blocks`, by its name."""


def filled(text: str) -> str:
    """A page with the tables that it asks for by name."""

    def one(found: re.Match) -> str:
        begin = found[0].split("\n", 1)[0] + "\n"
        return f"{begin}\n{blocks.BLOCKS[found[1]]()}\n{END}"

    return ASKED.sub(one, text)


def made() -> dict[Path, str]:
    """Every page with figures from bench/results, as it should be."""
    out = {path: write(path.read_text("utf-8")) for path, write in WRITERS.items()}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        before = out[path] if path in out else path.read_text("utf-8")
        if ASKED.search(before):
            out[path] = filled(before)
    out |= page.made(Store())
    return figures.pages(out)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    for path, text in made().items():
        if not options.check:
            path.write_text(text, "utf-8")
        elif not path.is_file() or path.read_text("utf-8") != text:
            sys.exit(
                f"{path.name} is not what bench/results gives; write it anew by: python -m"
                " bench.readme"
            )


if __name__ == "__main__":
    main()
