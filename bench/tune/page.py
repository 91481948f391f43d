"""Writes `tuning.toml` from the store, and the tables of docs/research/principles.md.

The tables are put on the page by `python -m bench.readme`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from .. import machine
from .aside import ASIDE
from .inventory import KINDS, Constant, constants, counts
from .judge import BEYOND, Compared, Effect, Verdict, by_change, compared, judged
from .of_class import CLASS
from .store import kept

TUNING = Path(__file__).resolve().parents[2] / "tuning.toml"
INVENTORY = machine.RESULTS / "tune-inventory.json"
SHOWN = {
    "pairs": "pairs",
    "triples": "triples",
    "worst_pair": "worst pair",
    "ranges": "ranges",
    "wasserstein": "Wasserstein",
    "correlation": "correlations",
}
OTHER_SUITES = ("people", "public", "linked", "adagrid", "numbers")
AT_ONCE = ("acts in", "seeds", "mean of all measures", "beyond two s.e.")
REMAINING = ("tuned", "choice")
"""Kinds of constants that `tuning.toml` lists."""
REPLACED = "before: "
TRIED = "tried: "
IN_CLASS = "earns its place in its class"
OTHER_REASONS = {
    "GROWTH": "saves time",
    "DEFAULT_CELLS": "bounds time and memory",
    "FINAL_SHARE": "says how far off rows are",
    "shrunk trends": "one shrinkage for all noisy numbers",
    "first look": "one division of the budget",
    "trends": "weak trends at epsilon 10: correlations +21 %",
    "steering": "weak trends at epsilon 10: correlations +19 %",
    "groups of rare numbers": "columns of 1,000 codes keep their correlations",
    "forest first": "saves time",
    "answers left out": "shown at an earlier commit, 52 cells: pairs +3.0 ± 1.5",
    "least cells": "shown at an earlier commit, 78 cells: triples +0.2 ± 0.1",
    "CHEAP": "shown at an earlier commit, 30 cells: pairs +1.6 ± 0.7",
    "asked where told": "shown at an earlier commit, 78 cells: pairs +0.2 ± 0.1",
    "findings": "shown at an earlier commit, 95 cells: correlations +1.6 ± 0.7",
    "hidden classes": "measured in [dense tables](dense.md)",
    "ties": "measured in [dense tables](dense.md#worst-pairs-of-public-tables)",
    "learnt errors": "measured in [dense tables](dense.md#worst-pairs-of-public-tables)",
}
"""Why rules stay for which the runs here need not show anything."""


def lines(records: Iterable[dict], names: Sequence[str]) -> list[str]:
    """A line for each change, for the terminal."""
    out = []
    records = list(records)
    found = by_change(compared(records))
    for name in names or found:
        if name not in found:
            continue
        verdict = judged(name, found[name])
        parts = [f"{e.measure} {e.mean:+.3f} ± {e.error:.3f}" for e in verdict.effects]
        failed = sum("failed" in r and r["without"] == name for r in records)
        more = f"; {failed} runs failed" if failed else ""
        out.append(
            f"{name}: {verdict.word}, acts in {verdict.acts} of {verdict.looked} cells,"
            f" {verdict.seeds} seeds: {', '.join(parts)}{more}"
        )
    return out


def per_cent(effect: Effect) -> str:
    """+1.2 ± 0.3, in per cent of the error; in bold beyond two standard errors."""
    text = f"{100 * effect.mean:+.1f} ± {100 * effect.error:.1f}"
    return f"**{text}**" if abs(effect.z) > 2 else text


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    found = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    found += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(found) + "\n"


def of_class(name: str) -> Verdict | None:
    """The verdict on a rule by the tables on which it should act by its own argument; None if it has no
    runs on them."""
    mine = [c for c in by_change(kept()).get(name, ()) if c.table in CLASS.get(name, ())]
    return judged(name, mine) if mine else None


def standing(v: Verdict) -> str:
    """Why a rule stays, in the words of the page."""
    own = of_class(v.name)
    if v.harms or own is None or not own.harms:
        return OTHER_REASONS.get(v.name, v.word)
    return IN_CLASS


def without_evidence(names: Iterable[str]) -> list[str]:
    """Rules that are in the package though no run shows that they make anything better, and nothing says
    what else they are for."""
    found = by_change(kept())
    known = {name: judged(name, of_one_commit(found[name])) for name in names if name in found}
    shown = {name for name, v in known.items() if v.harms or standing(v) == IN_CLASS}
    return [name for name in names if name not in shown and name not in OTHER_REASONS]


def of_one_commit(cells: Sequence[Compared]) -> list[Compared]:
    """The cells of the commit that has most of them."""
    count = Counter(c.commit for c in cells)
    return [c for c in cells if c.commit == max(count, key=lambda commit: count[commit])]


def verdicts(suite: str, tables: Sequence[str] | None = None) -> list[tuple[str, Verdict]]:
    """(what is left out, its verdict) of all changes of a suite that the store has, each at one commit."""
    from .ablations import ABLATIONS

    found = {name: of_one_commit(cells) for name, cells in by_change(kept()).items()}
    out = []
    for name, one in ABLATIONS.items():
        if name in found and one.suite == suite:
            out.append((one.about, judged(name, found[name], tables)))
    return out


def kinds_block() -> str:
    """How many constants of each kind a folder has."""
    kept = json.loads(INVENTORY.read_text("utf-8"))
    rows = [
        [f"`{folder}`", *(str(found[kind]) for kind in KINDS)]
        for folder, found in kept["counts"].items()
    ]
    return table(["folder", *KINDS], rows)


def rows_block() -> str:
    """Every rule of the default mechanism: what leaving it out does."""
    rows = []
    for about, v in verdicts("rows"):
        if v.name.startswith((REPLACED, TRIED)):
            continue
        known = {e.measure: per_cent(e) for e in v.effects}
        cells = [known.get(name, "") if v.acts else "" for name in SHOWN]
        rows.append([f"{v.name}: {about}", f"{v.acts} of {v.looked}", *cells, standing(v)])
    return table(["left out", "acts in", *SHOWN.values(), "verdict"], rows)


def class_block() -> str:
    """Rules of one class of tables, on tables of their class."""
    rows = []
    for name in CLASS:
        if name.startswith((REPLACED, TRIED)) or (v := of_class(name)) is None:
            continue
        found = [c for c in by_change(kept())[name] if c.table in CLASS[name]]
        at = ", ".join(f"{e:g}" for e in sorted({c.epsilon for c in found}))
        known = {e.measure: per_cent(e) for e in v.effects}
        cells = [known.get(measure, "") if v.acts else "" for measure in SHOWN]
        rows.append([name, at, f"{v.acts} of {v.looked}", str(v.seeds), *cells, v.word])
    head = ["left out", "epsilon", "acts in", "seeds", *SHOWN.values(), "verdict"]
    return table(head, rows)


def aside_block() -> str:
    """The same on the tables that were kept aside."""
    rows = []
    for _, v in verdicts("rows", tuple(ASIDE)):
        if v.name.startswith((REPLACED, TRIED)) or not v.acts:
            continue
        known = {e.measure: per_cent(e) for e in v.effects}
        rows.append([v.name, *(known.get(name, "") for name in SHOWN), v.word])
    return table(["left out", *SHOWN.values(), "verdict"], rows)


def replaced_block() -> str:
    """Rules that a principle replaced: the error with the old rule, less that with the new one."""
    rows = []
    for about, v in verdicts("rows"):
        if v.name.startswith((REPLACED, TRIED)):
            known = {e.measure: per_cent(e) for e in v.effects}
            cells = [known.get(name, "") if v.acts else "" for name in SHOWN]
            rows.append([f"{v.name}: {about}", f"{v.acts} of {v.looked}", *cells])
    return table(["instead", "acts in", *SHOWN.values()], rows)


def values_block() -> str:
    """Other values of constants: the error with another value, less that with the one there is."""
    rows = []
    for short, value, v in values("rows"):
        known = {e.measure: per_cent(e) for e in v.effects}
        cells = [known.get(measure, "") if v.acts else "" for measure in SHOWN]
        rows.append([f"`{short}` {value}", f"{v.acts} of {v.looked}", str(v.seeds), *cells])
    return table(["constant", "acts in", "seeds", *SHOWN.values()], rows)


def other_rules_block() -> str:
    """Rules whose suite has measures of its own, and rules for them that were replaced or tried: all
    measures together, and those beyond two standard errors."""
    rows = []
    for suite in OTHER_SUITES:
        for about, v in verdicts(suite):
            rows.append([suite, f"{v.name}: {about}", *at_once(v)])
    return table(["suite", "left out, or instead", *AT_ONCE], rows)


def other_values_block() -> str:
    """The same of constants."""
    rows = []
    for suite in OTHER_SUITES:
        for short, value, v in values(suite):
            rows.append([suite, f"`{short}` {value}", *at_once(v)])
    return table(["suite", "constant", *AT_ONCE], rows)


def at_once(v: Verdict) -> list[str]:
    """A line of a suite with many measures of its own (`AT_ONCE`)."""
    mean = float(np.mean([e.mean for e in v.effects]))
    beyond = ", ".join(f"{e.measure} {per_cent(e)}" for e in v.effects if abs(e.z) > BEYOND)
    shown = f"{100 * mean:+.1f}" if v.acts else ""
    return [f"{v.acts} of {v.looked}", str(v.seeds), shown, beyond]


def values(suite: str) -> Iterator[tuple[str, str, Verdict]]:
    """(constant, its other value, the verdict) of a suite."""
    names = {one.path for one in constants()}
    for name, found in sorted(by_change(kept()).items()):
        path, _, value = name.partition("=")
        if path.rstrip("*") in names and found[0].suite == suite:
            short = ".".join(path.rstrip("*").split(".")[-2:])
            yield short, f"{'times' if path.endswith('*') else '='} {value}", judged(name, found)


def solvers_block() -> str:
    """AdaGrid's rows by each solver: errors and processor seconds, means over seeds."""
    kept = json.loads((machine.RESULTS / "adagrid-solvers.json").read_text("utf-8"))["runs"]
    found: dict[tuple, list[dict]] = {}
    for run in kept:
        found.setdefault((run["case"], run["rows"], run["epsilon"], run["method"]), []).append(run)
    rows = []
    for (case, count, epsilon, method), runs in found.items():
        means = [
            sum(run[name] for run in runs) / len(runs)
            for name in ("2-way", "3-way", "processor_seconds")
        ]
        shown = [f"{means[0]:.4f}", f"{means[1]:.4f}", f"{means[2]:.2f}"]
        rows.append([f"{case}, {count:,} rows", f"{epsilon:g}", method, str(len(runs)), *shown])
    head = ["table", "epsilon", "solver", "seeds", "pairs", "triples", "processor s"]
    return table(head, rows)


BLOCKS = {
    "tune_kinds": kinds_block,
    "tune_rows": rows_block,
    "tune_class": class_block,
    "tune_aside": aside_block,
    "tune_replaced": replaced_block,
    "tune_values": values_block,
    "tune_other_rules": other_rules_block,
    "tune_other_values": other_values_block,
    "tune_solvers": solvers_block,
}


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def document(cells: Sequence[Compared], listed: Sequence[Constant]) -> str:
    """The text of tuning.toml: constants that remain, and what leaving rules out does."""
    from .ablations import ABLATIONS

    found = by_change(cells)
    covered: dict[str, list[str]] = {}
    for name, one in ABLATIONS.items():
        for path in (*one.paths, *one.about_also):
            covered.setdefault(path, []).append(name)
    out = [
        "# Written by `python -m bench.tune --page`: do not edit.",
        "# What remains tuned, where it comes from, and what leaving it out does to errors, in per",
        "# cent with standard errors. `aside`: on tables on which nothing was chosen.",
    ]
    for name, one in ABLATIONS.items():
        if name not in found:
            continue
        mine = of_one_commit(found[name])
        whole = judged(name, mine)
        aside = judged(name, mine, tuple(ASIDE))
        out += [
            "",
            f"[ablations.{quoted(name)}]",
            f"about = {quoted(one.about)}",
            f"replaces = {quoted(', '.join(one.paths))}",
            f"verdict = {quoted(whole.word)}",
            f"commit = {quoted(mine[-1].commit)}",
            f"seeds = {sorted({seed for one in mine for seed in one.seeds})}",
            f"tables = {json.dumps(sorted({one.table for one in mine}))}",
            f"acts = {quoted(f'{whole.acts} of {whole.looked}')}",
        ]
        for label, verdict in (("effect", whole), ("aside", aside)):
            parts = [f"{e.measure} = {quoted(per_cent(e).strip('*'))}" for e in verdict.effects]
            out.append(f"{label} = {{ {', '.join(parts)} }}" if verdict.acts else f"{label} = {{}}")
    tried: dict[str, list[str]] = {}
    for name in found:
        path, _, value = name.partition("=")
        tried.setdefault(path.rstrip("*"), []).append(f"x {value}" if path.endswith("*") else value)
    for one in listed:
        if one.kind in REMAINING:
            out += [
                "",
                f"[constants.{quoted(one.path)}]",
                f"value = {quoted(one.value)}",
                f"kind = {quoted(one.kind)}",
                f"chosen = {quoted(one.provenance)}",
                f"command = {quoted(one.command)}",
                f"ablations = {json.dumps(covered.get(one.path, []))}",
                f"tried = {json.dumps(sorted(tried.get(one.path, [])))}",
            ]
    return "\n".join(out) + "\n"


def write(cells: Sequence[Compared], listed: Sequence[Constant]) -> None:
    """tuning.toml, and the counts of constants that the page shows."""
    TUNING.write_text(document(cells, listed), "utf-8")
    found = {"counts": counts(list(listed)), "total": len(listed)}
    INVENTORY.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def differing(listed: Sequence[Constant]) -> list[str]:
    """Constants whose value is not the one that tuning.toml has."""
    import tomllib

    kept = tomllib.loads(TUNING.read_text("utf-8"))["constants"]
    now = {one.path: one.value for one in listed if one.kind in REMAINING}
    return sorted(
        path for path in kept.keys() | now if kept.get(path, {}).get("value") != now.get(path)
    )
