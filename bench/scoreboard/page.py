"""docs/research/scoreboard.md and its plot, made from the store. Nothing on it is typed by hand but
the reasons of losses (`reasons`)."""

from __future__ import annotations

import csv
import math
import textwrap
from collections import Counter, defaultdict
from pathlib import Path

from fastdp.mechanisms.registry import DEFAULT

from . import ablations, compare, peers, plot, reasons, tables
from .compare import Cell, Loss
from .measures import MEASURES
from .store import KEPT, Store

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "research" / "scoreboard.md"
PLOT = ROOT / "docs" / "pictures" / "scoreboard.svg"
SHOWN_EPSILON = 1.0
CAPTION = (
    "mean total variation of all pairs against processor seconds; down and left is better; *: on"
    " another machine"
)


def places(kept: Store) -> tuple[Path, Path]:
    """Where page and plot go: into docs/ for the project's own store, else beside the store."""
    if kept.folder.resolve() == KEPT.resolve():
        return PAGE, PLOT
    return kept.folder / "scoreboard.md", kept.folder / "scoreboard.svg"


def write(kept: Store) -> Path:
    page, _ = places(kept)
    for path, text in made(kept).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return page


def stale(kept: Store) -> str | None:
    """The file that is not what the store gives; None if all are."""
    for path, text in made(kept).items():
        if not path.is_file() or path.read_text("utf-8") != text:
            return path.name
    return None


def made(kept: Store) -> dict[Path, str]:
    """The texts of page and plot."""
    records = compare.of_last_version(kept.records())
    page, picture = places(kept)
    found = compare.cells(records)
    compared = compare.comparisons(found)
    link = "../pictures/scoreboard.svg" if picture == PLOT else picture.name
    sections = [
        heading(kept, records),
        losses_section(compared, ablations.stored(kept)),
        f"## Error against time\n\n![{CAPTION}]({link})\n\n{times_section(records)}",
        counts_section(found, compared),
        *quality_section(found),
        peers_section(kept, records, found),
        tables_section(records),
        measures_section(),
        HOW,
    ]
    return {page: "\n".join(sections), picture: plot.svg(panels(records, found), CAPTION)}


def number(value: float) -> str:
    """Three digits: 0.0123, 0.912, 988, 12.3."""
    if value and abs(value) < 0.0005:
        return f"{value:.0e}"
    return f"{float(f'{value:.3g}'):,g}"


def known_table(name: str) -> str:
    return (
        tables.BENCHMARKS[name].about if name in tables.BENCHMARKS else "a table of a caller's own"
    )


def in_order(names) -> list[str]:
    """Tables in the order of `tables.BENCHMARKS`, others after them."""
    order = {name: i for i, name in enumerate(tables.BENCHMARKS)}
    return sorted(set(names), key=lambda name: (order.get(name, len(order)), name))


def heading(kept: Store, records: list[dict]) -> str:
    good = [r for r in records if "failed" not in r]
    seeds = Counter((r["table"], r["mechanism"], r["epsilon"]) for r in good)
    ours = [n for (_, name, _), n in seeds.items() if name == DEFAULT]
    commits = sorted({r["commit"] for r in good if r["kind"] == "fastdp"})
    lines = [
        "# Research notes: scoreboard",
        "",
        "The default mechanism beside other mechanisms, other libraries, floors and ceilings, on",
        "tables and by measures that the field uses. `python -m bench.scoreboard` runs it and makes",
        f"this page from the stored runs: {len(good):,} runs on {len(set(r['table'] for r in good))}"
        " tables.",
        f"The default has {spread(ours)} seeds a table and epsilon. Intervals are of 95 % over seeds",
        "(Welch); beside a single seed, of one further value.",
        "",
        f"fastdp at {'commits' if len(commits) > 1 else 'commit'} {', '.join(commits) or '?'}"
        " (a plus: with changes). Machines:",
        "",
    ]
    for name, about in kept.machines().items():
        loads = [r["load"] for r in records if r["machine"] == name]
        count = sum(r["machine"] == name for r in good)
        load = f"load {min(loads)} to {max(loads)}" if loads else "no runs"
        lines.append(
            f"- {about['processor']}, {about['cores']} cores, {about['architecture']}: {count:,}"
            f" runs, {load}"
        )
    return "\n".join(lines) + "\n"


def spread(counts: list[int]) -> str:
    if not counts:
        return "no"
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


def losses_section(compared: list[Loss], ablated: list[dict]) -> str:
    """Losses first: how many by measure, then one section for each reason. ablated: lines of
    `ablations`."""
    lost = compare.losses(compared)
    together = compare.together(compared)
    chance = len(compared) * (1 - compare.CONFIDENCE) / 2
    text = (
        f"Of {len(compared):,} comparisons (table, measure, epsilon, rival) the rival is better beyond"
        f" the interval in {len(lost):,}; were all equal, chance would give about {chance:,.0f}. Judged"
        f" together (Benjamini and Hochberg, one loss in twenty by chance), {count(lost, together):,}"
        f" of them count: one-sided p at most {number(together)}. These are bold below; each of the"
        " others may be chance, though not all are. `mst`, which fits a single tree, is always faster"
        " and smaller (table below); that is not counted here."
    )
    lines = ["## Where the default loses", "", *wrapped([text]), "", *by_rival(compared, together)]
    grouped: dict[tuple[str, str], list[Loss]] = defaultdict(list)
    for loss in lost:
        reason = reason_of(loss)
        grouped[reason.title, reason.text].append(loss)
    if grouped:
        text = (
            "Each reason stands once, over its losses: by how much at each epsilon, with the half-width"
            " of the interval; `=` is the default's own value. *Without it*: by how much the rival is"
            " still better when the reason is taken away (`python -m bench.scoreboard.ablations`); a"
            " minus says that the default then is. Where much is left, the reason explains the loss in"
            " part; where nothing is shown, the reason is read from the mechanism."
        )
        lines += ["", *wrapped([text])]
    for one in (reasons.UNEXPLAINED, *reasons.REASONS):
        if of_reason := grouped.pop((one.title, one.text), None):
            lines += ["", *reason_section(one, of_reason, together, ablated)]
    return "\n".join(lines) + "\n"


def reason_of(loss: Loss) -> reasons.Reason:
    return reasons.reason(loss.ours.table, loss.ours.measure, loss.rival.mechanism, loss.epsilon)


def count(lost: list[Loss], together: float) -> int:
    """How many losses count when all comparisons are judged together."""
    return sum(compare.by_chance(one) <= together for one in lost)


def by_rival(compared: list[Loss], together: float) -> list[str]:
    """Losses by measure and rival beside the comparisons that the default wins."""
    lost = compare.losses(compared)
    names = sorted({one.rival.mechanism for one in compared if one.rival.kind != "peer"})
    kinds = {name: f"`{name}`" for name in names}
    whom = ", ".join([*kinds.values(), "libraries"])
    lines = [
        f"| measure | comparisons | better | worse | of them count | worse than {whom} |",
        "|---|---|---|---|---|---|",
    ]
    for name, measure in MEASURES.items():
        here = [one for one in compared if one.ours.measure == name]
        if not here:
            continue
        worse = [one for one in lost if one.ours.measure == name]
        better = sum(one.by < 0 and not -one.by <= one.half for one in here)
        rivals = Counter(one.rival.mechanism for one in worse)
        libraries = sum(n for who, n in rivals.items() if who not in kinds)
        cells = ", ".join(str(n) for n in (*(rivals[who] for who in kinds), libraries))
        lines.append(
            f"| {measure.title} | {len(here)} | {better} | {len(worse)} | {count(worse, together)}"
            f" | {cells if worse else ''} |"
        )
    return lines


def reason_section(
    reason: reasons.Reason, lost: list[Loss], together: float, ablated: list[dict]
) -> list[str]:
    """A reason and the losses that it explains, one row for each table and rival."""
    grouped: dict[tuple[str, str], list[Loss]] = defaultdict(list)
    for loss in lost:
        grouped[loss.ours.table, loss.rival.mechanism].append(loss)
    order = {name: i for i, name in enumerate(in_order(table for table, _ in grouped))}
    rows = [
        (
            *where,
            "; ".join(by_measure(grouped[where], together)),
            taken_away(grouped[where], ablated),
        )
        for where in sorted(grouped, key=lambda where: (order[where[0]], where[1]))
    ]
    titles = ["table", "better", "where, and by how much"]
    if any(row[3] for row in rows):
        titles.append("without it")
    lines = [f"### {reason.title}", "", *wrapped([f"{reason.text}."]), ""]
    lines += [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    return lines + [f"| {' | '.join(row[: len(titles)])} |" for row in rows]


def taken_away(lost: list[Loss], ablated: list[dict]) -> str:
    """By how much the rival is better without the reason, by measure and epsilon."""
    found: dict[tuple, list[dict]] = defaultdict(list)
    for line in ablated:
        found[ablations.loss_of(line)].append(line)
    parts: dict[str, list[str]] = defaultdict(list)
    for loss in sorted(lost, key=lambda one: (list(MEASURES).index(one.ours.measure), one.epsilon)):
        ours, rival = loss.ours, loss.rival
        name = reason_of(loss).ablation
        lines = found[ours.table, loss.epsilon, ours.measure, rival.mechanism, name]
        if lines:
            cells = [
                Cell(ours.table, ours.measure, who, "", loss.epsilon, tuple(x[key] for x in lines))
                for who, key in ((DEFAULT, "default"), (rival.mechanism, "other"))
            ]
            shown = number(compare.gap(*cells))
            if len(lines) >= ablations.FRESH:
                shown += f" ± {number(compare.half_width(*cells))}"
            parts[ours.measure].append(f"{loss.epsilon:g}: {shown}")
    several = len({one.ours.measure for one in lost}) > 1
    return "; ".join(
        f"{MEASURES[m].title} {', '.join(cells)}" if several else ", ".join(cells)
        for m, cells in parts.items()
    )


def by_measure(lost: list[Loss], together: float) -> list[str]:
    """ "pairs 1: 0.002 ± 0.001 (= 0.01)" for each measure; bold where the loss counts."""
    out = []
    for measure in MEASURES:
        of_measure = sorted(
            (one for one in lost if one.ours.measure == measure), key=lambda one: one.epsilon
        )
        if not of_measure:
            continue
        parts = []
        for one in of_measure:
            half = "one seed" if math.isnan(one.half) else f"± {number(one.half)}"
            by = number(one.by)
            if compare.by_chance(one) <= together:
                by = f"**{by}**"
            parts.append(f"{one.epsilon:g}: {by} {half} (= {number(one.ours.mean)})")
        out.append(f"{MEASURES[measure].title} {', '.join(parts)}")
    return out


def panels(records: list[dict], found: list[Cell]) -> list[plot.Panel]:
    """The tables on which most peers gave rows; at most six."""
    good = [r for r in records if "failed" not in r]
    other = compare.elsewhere(good)
    marked = {(r["table"], r["mechanism"]) for r in other}
    timed = [*compare.on_one_machine(good), *other]
    time_of: dict[tuple, list[float]] = defaultdict(list)
    for record in timed:
        if record["epsilon"] in (None, SHOWN_EPSILON):
            time_of[record["table"], record["mechanism"]].append(record["processor"])
    error_of = {
        (cell.table, cell.mechanism): cell
        for cell in found
        if cell.measure == "pairs" and cell.epsilon in (None, SHOWN_EPSILON)
    }
    peers_on: dict[str, set[str]] = {table: set() for table, _ in time_of}
    for record in timed:
        if record["kind"] == "peer" and record["epsilon"] == SHOWN_EPSILON:
            peers_on[record["table"]].add(record["mechanism"])
    names = in_order(sorted(in_order(peers_on), key=lambda name: -len(peers_on[name]))[:6])
    out = []
    for name in names:
        points = []
        for (table, mechanism), seconds in time_of.items():
            cell = error_of.get((table, mechanism))
            if table == name and cell is not None and cell.kind != "ceiling":
                mean = math.fsum(seconds) / len(seconds)
                label = mechanism + ("*" if (table, mechanism) in marked else "")
                points.append(plot.Point(label, cell.kind, mean, max(cell.mean, 1e-6)))
        above = error_of.get((name, "bootstrap"))
        ceiling = above.mean if above else None
        notes = tuple(
            f"{who}: {reason.removesuffix(' of the processor')}"
            for who, reason in failures(records, name).items()
        )
        title = f"{name}, epsilon {SHOWN_EPSILON:g}"
        short = tuple(note if len(note) < 42 else note[:39] + "..." for note in notes)
        if points:
            out.append(plot.Panel(title, tuple(points), ceiling, short))
    return out


def failures(records: list[dict], table: str) -> dict[str, str]:
    """Who gave no rows on a table at the shown epsilon, in any run, and why."""
    good = {r["mechanism"] for r in records if r["table"] == table and "failed" not in r}
    return {
        r["mechanism"]: r["failed"]
        for r in records
        if r["table"] == table and "failed" in r and r["mechanism"] not in good
    }


def times_section(records: list[dict]) -> str:
    """Seconds and memory, of one machine a table but for those with a mark."""
    good = [
        r
        for r in records
        if "failed" not in r
        and r["epsilon"] == SHOWN_EPSILON
        and r["kind"] in ("fastdp", "plug-in", "peer")
    ]
    other = compare.elsewhere(good)
    marked = {(r["table"], r["mechanism"]) for r in other}
    runs: dict[tuple, list[dict]] = defaultdict(list)
    for record in [*compare.on_one_machine(good), *other]:
        runs[record["table"], record["mechanism"]].append(record)
    who = sorted({name for _, name in runs}, key=lambda name: (name != DEFAULT, " " in name, name))
    if not who:
        return ""
    lines = [
        f"Processor seconds and peak memory in MB of a run at epsilon {SHOWN_EPSILON:g}, each table on"
        " one machine; `-`: not run or",
        "not done; `*`: on another machine, so seconds are not to be compared.",
        "",
        "| table | " + " | ".join(who) + " |",
        "|---" * (len(who) + 1) + "|",
    ]
    for table in in_order(table for table, _ in runs):
        row = []
        for name in who:
            here = runs.get((table, name), [])
            if not here:
                row.append("-")
                continue
            seconds = math.fsum(r["processor"] for r in here) / len(here)
            memory = math.fsum(r["peak_mb"] for r in here) / len(here)
            mark = "\\*" if (table, name) in marked else ""
            row.append(f"{number(seconds)} s, {memory:,.0f}{mark}")
        lines.append(f"| {table} | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def counts_section(found: list[Cell], compared: list[Loss]) -> str:
    """One row a table: errors of the default beside the best rival and the ceiling, and how many
    comparisons at all epsilons are won, even and lost."""
    lines = [
        "## Every table",
        "",
        f"Error of pairs at epsilon {SHOWN_EPSILON:g} with its standard error: of the default, of the"
        " best other mechanism,",
        "of true rows drawn again (not private). Then comparisons over all measures of rows, epsilons"
        " and",
        "rivals in which the default is better beyond the interval, not distinguished, worse.",
        "",
        f"| table | {DEFAULT} | best other | true rows again | better | even | worse |",
        "|---|---|---|---|---|---|---|",
    ]
    pairs = [c for c in found if c.measure == "pairs" and c.epsilon in (None, SHOWN_EPSILON)]
    lost = {id(one) for one in compare.losses(compared)}
    for table in in_order(c.table for c in found):
        here = {c.mechanism: c for c in pairs if c.table == table}
        others = [c for c in here.values() if c.mechanism != DEFAULT and c.kind in compare.RIVALS]
        best = min(others, key=lambda c: c.mean, default=None)
        of_table = [
            one
            for one in compared
            if one.ours.table == table and MEASURES[one.ours.measure].of_rows
        ]
        worse = sum(id(one) in lost for one in of_table)
        better = sum(one.by < 0 and not -one.by <= one.half for one in of_table)
        even = len(of_table) - worse - better
        cells = [
            with_error(here.get(DEFAULT)),
            f"{best.mechanism} {with_error(best)}" if best else "-",
            with_error(here.get("bootstrap")),
        ]
        lines.append(f"| {table} | {' | '.join(cells)} | {better} | {even} | {worse} |")
    return "\n".join(lines) + "\n"


def with_error(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    if math.isnan(cell.error):
        return number(cell.mean)
    return f"{number(cell.mean)} ± {number(cell.error)}"


def quality_section(found: list[Cell]) -> list[str]:
    """SDMetrics' score where it was computed for the default: one row a table; else nothing."""
    cells = {
        (c.table, c.mechanism): c
        for c in found
        if c.measure == "sdmetrics" and c.epsilon in (None, SHOWN_EPSILON)
    }
    names = [DEFAULT, *sorted({name for _, name in cells} - {DEFAULT})]
    rows = [
        [
            table,
            *(number(cells[table, who].mean) if (table, who) in cells else "-" for who in names),
        ]
        for table in in_order(table for table, who in cells if who == DEFAULT)
    ]
    if not rows:
        return []
    lines = [
        "## SDMetrics",
        "",
        f"Overall score of SDMetrics' QualityReport at epsilon {SHOWN_EPSILON:g}, higher is better;"
        " `bootstrap` are true rows drawn",
        "again. It looks at single columns and pairs.",
        "",
        f"| table | {' | '.join(names)} |",
        "|---" * (len(names) + 1) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return ["\n".join(lines) + "\n"]


PEER_MEASURES = ("kmarginal", "pairs", "triples", "ranges", "wasserstein", "auc_boosting")


def peers_section(kept: Store, records: list[dict], found: list[Cell]) -> str:
    """Peers beside the default where they ran; who could not take part, and why."""
    ran = [c for c in found if c.kind in ("peer", "plug-in")]
    there = [
        state
        for library, state in kept.peers().items()
        if library in peers.LIBRARIES
        and peers.LIBRARIES[library].mechanisms
        and not state.startswith("not installed")
    ]
    lines = ["## Other libraries", ""]
    if there:
        lines += wrapped(
            [
                f"Installed, each in its own environment: {', '.join(there)}. A run of theirs may use"
                f" {limits(records)} of the processor. mbi's package has estimators and no mechanisms:"
                " MST and AIM over it are `bench/scoreboard/mbi_mechanisms.py`, as published."
                " dpmm's MST-500 has 500 iterations in place of 5,000. smartnoise and opendp draw rows"
                " by mbi 1.1.0, whose rounding makes columns that hang on the same column depend on each"
                " other (three fair coins in a row of two pairs: the outer ones come out equal), so"
                " their pairs are far off although single columns are not. They ran at one epsilon,"
                " with few seeds and on some tables: a run takes many times as long as the default's"
                " (above). AIM of mbi was tried on five tables and not done within its limit; AIM of"
                " dpmm and of OpenDP were not run."
            ]
        )
        lines.append("")
    if ran:
        titles = " | ".join(MEASURES[m].title for m in PEER_MEASURES)
        lines += [f"| table, epsilon | who | seeds | {titles} |", "|---" * 9 + "|"]
    for table, epsilon in sorted({(c.table, c.epsilon) for c in ran}):
        names = dict.fromkeys(
            [DEFAULT, *(c.mechanism for c in ran if (c.table, c.epsilon) == (table, epsilon))]
        )
        for name in names:
            cells = {
                c.measure: c
                for c in found
                if (c.table, c.mechanism, c.epsilon) == (table, name, epsilon)
            }
            if "pairs" in cells:
                values = [number(cells[m].mean) if m in cells else "-" for m in PEER_MEASURES]
                seeds = len(cells["pairs"].values)
                lines.append(
                    f"| {table}, {epsilon:g} | {name} | {seeds} | " + " | ".join(values) + " |"
                )
    lines += [
        "",
        "What gave no rows, or could not be installed:",
        "",
        "| who | where | why |",
        "|---|---|---|",
    ]
    why: dict[tuple, list[str]] = defaultdict(list)
    for table in in_order(r["table"] for r in records):
        for who, reason in failures(records, table).items():
            why[who, reason].append(table)
    for (who, reason), where in sorted(why.items()):
        lines.append(f"| {who} | {', '.join(where)} | {plain(reason)} |")
    for library, state in kept.peers().items():
        if library in peers.LIBRARIES and state.startswith("not installed"):
            lines.append(f"| {library} | everywhere | {plain(state)} |")
    return "\n".join(lines) + "\n"


def limits(records: list[dict]) -> str:
    found = sorted({r["limit"] for r in records if r["kind"] == "peer"})
    if not found:
        return "a limit"
    return " to ".join(f"{limit:g} s" for limit in dict.fromkeys((found[0], found[-1])))


def plain(text: str) -> str:
    """Text that is safe in a cell of a table."""
    return text.replace("|", "/").replace("<", "&lt;").replace("`", "'")


def tables_section(records: list[dict]) -> str:
    there = {r["table"] for r in records if "failed" not in r}
    lines = [
        "## Tables",
        "",
        "A fifth of the rows (or users) is held out before any mechanism runs, and tests the models.",
        "Delta is 1e-9 where a unit is a row, 1e-6 where it is a user with all rows. Peers know rows",
        "only: of tables with users they get one row of each.",
        "",
        "| table | what it is |",
        "|---|---|",
    ]
    for name in [*tables.BENCHMARKS, *(t for t in in_order(there) if t not in tables.BENCHMARKS)]:
        left_out = "" if name in there else " (no runs stored)"
        lines.append(f"| {name} | {known_table(name)}{left_out} |")
    return "\n".join(lines) + "\n"


def measures_section() -> str:
    lines = ["## Measures", "", "| measure | better | definition |", "|---|---|---|"]
    for one in MEASURES.values():
        lines.append(f"| {one.title} | {'higher' if one.higher else 'lower'} | {one.about} |")
    return "\n".join(lines) + "\n"


NEVER_WORSE = ("mst", "independent")
NEVER_WORSE_EPSILONS = (0.1, 1.0, 10.0)


def never_worse(found: list[Cell]) -> str:
    """Errors of pairs and of triples of the default, and how far they are above those of `mst` and
    of independent columns, for docs/research/cliquetree.md."""
    compared = {
        (one.ours.table, one.epsilon, one.ours.measure, one.rival.mechanism): one
        for one in compare.comparisons(found)
        if one.ours.measure in ("pairs", "triples")
        and one.rival.mechanism in NEVER_WORSE
        and one.epsilon in NEVER_WORSE_EPSILONS
    }
    lines = [
        "| table, epsilon | `cliquetree` | above `mst` | above the independent model |",
        "|---|---|---|---|",
    ]
    cases = {(table, epsilon) for table, epsilon, _, _ in compared}
    order = in_order(table for table, _ in cases)
    for table, epsilon in sorted(cases, key=lambda case: (order.index(case[0]), case[1])):
        own = []
        above: dict[str, list[str]] = {name: [] for name in NEVER_WORSE}
        for measure in ("pairs", "triples"):
            for name in NEVER_WORSE:
                one = compared.get((table, epsilon, measure, name))
                if one is None:
                    continue
                if name == "mst":
                    own.append(f"{one.ours.mean:.4f}")
                above[name].append(f"{one.by:+.4f} ± {one.half:.4f}")
        cells = [" / ".join(own), *(", ".join(above[name]) for name in NEVER_WORSE)]
        lines.append(f"| {table} {epsilon:g} | " + " | ".join(cells) + " |")
    lost = compare.losses(compared.values())
    lines.append("")
    for name in NEVER_WORSE:
        of_name = [one for one in compared.values() if one.rival.mechanism == name]
        worse = [one for one in lost if one.rival.mechanism == name]
        where = ", ".join(
            f"{one.ours.table} {one.epsilon:g} ({one.ours.measure}, {one.by:+.4f})" for one in worse
        )
        text = f"Beyond the interval, above `{name}` in {len(worse)} of {len(of_name)}"
        lines.append(f"- {text}{': ' + where if where else ''}.")
    return "\n".join(wrapped(lines)) + "\n"


def wrapped(lines: list[str], width: int = 100) -> list[str]:
    """Lines of at most this width; rows of tables stay as they are."""
    out: list[str] = []
    for line in lines:
        if line.startswith("|") or len(line) <= width:
            out.append(line)
        else:
            indent = "  " if line.startswith("- ") else ""
            out += textwrap.wrap(
                line,
                width,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return out


HOW = """## Run it, and take part

| `python -m bench.scoreboard` | what it does |
|---|---|
| `--quick` | six tables, epsilon 1, two seeds, in bench/out; ends within eight minutes |
| `--install` | makes an environment for each library |
| `--cores 16` | runs all that is not stored yet |
| `--csv mine.csv --domain mine.json --target income` | runs on a table of yours |
| `--mechanisms cliquetree star --tables xor3` | runs a plug-in beside the default |

- **A table**: a CSV file with a domain file, as above (sizes of coded columns, or a schema), or an
  entry in `bench/scoreboard/tables.py`.
- **A mechanism**: [a plug-in](../guide/plugins.md) takes part by its name.
- **A library**: `--peer "NAME=COMMAND"`; the command is called with NAME IN.npz OUT.npz EPSILON
  DELTA SEED (`bench/scoreboard/peer_program.py` says what the files hold).
- Means and standard errors of every measure: `python -m bench.scoreboard --rows FILE.csv`.
"""


def write_rows(kept: Store, path: Path) -> None:
    """One row for each table, measure, mechanism and epsilon, with the standard error."""
    cells = compare.cells(kept.records())
    with path.open("w", newline="", encoding="utf-8") as sink:
        out = csv.writer(sink)
        out.writerow(
            ["table", "measure", "mechanism", "kind", "epsilon", "mean", "standard_error", "seeds"]
        )
        for c in sorted(cells, key=lambda c: (c.table, c.measure, c.mechanism, c.epsilon or 0.0)):
            error = "" if math.isnan(c.error) else f"{c.error:.5g}"
            epsilon = "" if c.epsilon is None else f"{c.epsilon:g}"
            row = [c.table, c.measure, c.mechanism, c.kind, epsilon, f"{c.mean:.5g}", error]
            out.writerow([*row, len(c.values)])
