"""Tables of README and docs/ that are made from one file of bench/results/ each.

A page asks for one by a mark, and `python -m bench.readme` writes it between that mark and the next
end:

    <!-- made by python -m bench.readme: coverage -->
    <!-- end -->

A function here with that name in `BLOCKS` gives the lines. The commands that measure are named on
the pages.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable

from . import guide_tables, numbers_tables, versions, versions_users
from .machine import kept
from .markdown import bare, table
from .scoreboard import since
from .tune import page as tune

COVERED = {
    "single column": "single columns",
    "measured pair": "measured pairs",
    "unmeasured pair": "unmeasured pairs",
    "share": "shares",
    "group total": "group totals",
    "mean": "group means",
    "difference": "differences of means",
    "sum": "group sums",
}
NAIVE = ("single column", "measured pair", "unmeasured pair")


def coverage() -> str:
    """Per cent of true numbers inside intervals, by table, epsilon and kind."""
    lines = kept("coverage")
    found = {(x["table"], x["epsilon"], x["who"], x["kind"]): x for x in lines}
    rows = []
    for name, epsilon in dict.fromkeys((x["table"], x["epsilon"]) for x in lines):
        cells = []
        for kind in COVERED:
            one = found[name, epsilon, "answer", kind]
            cells.append(f"{100 * one['coverage']:.1f} ({100 * one['binomial_error']:.1f})")
        naive = [f"{100 * found[name, epsilon, 'naive', k]['coverage']:.0f}" for k in NAIVE]
        rows.append([f"{name}, {epsilon:g}", *cells, " / ".join(naive)])
    return table(["table, epsilon", *COVERED.values(), "naive"], rows)


def push_down() -> str:
    """Processor seconds of counting in a database, beside queries by hand and local counting."""
    record = kept("push_down")
    hand, sql, local = (record["ways"][w] for w in ("by hand", "engine='sql'", "engine='local'"))

    def row(name: str, way: dict, rounds: str, compared: bool = False) -> list[str]:
        cells = []
        for parts in (("open",), ("marginals",), ("open", "marginals")):
            own = sum(way[part] for part in parts)
            ratio = own / sum(hand[part] for part in parts)
            cells.append(f"{own:.1f} ({ratio:.2f} times)" if compared else f"{own:.1f}")
        return [name, *cells, rounds]

    rounds = f"{sql['rounds']:.1f} with the hint, {sql['rounds without the hint']:.1f} without"
    return table(
        [
            f"{record['threads']} threads",
            "opening",
            "59 marginals",
            "both",
            "as AdaGrid asks, in 4 rounds",
        ],
        [
            row("by hand", hand, ""),
            row('`engine="sql"`', sql, rounds, compared=True),
            row('`engine="local"`', local, ""),
        ],
    )


def series() -> str:
    """Errors with the last release as a prior, over those without."""
    record = kept("series")
    months = {"steady": "steady, the second to the fourth", "break": "the month of the break"}
    rows = []
    for key, title in months.items():
        one = record[key]
        ratio = f"{one['ratio']:.3f} ± {one['half']:.3f}"
        rows.append([title, str(record["tables"]), bare(one["error"], 4), ratio])
    return table(["months", "tables", "error without", "ratio"], rows)


def on_demand_times() -> str:
    """Seconds of completing partial rows."""
    record = kept("on-demand")
    asked = {
        "one rare value": "one value of probability 1e-6 in all rows",
        "three columns": "three columns",
        "half": "half of all values, at random",
    }
    rows = []
    for key, title in asked.items():
        times = [record[name]["seconds"][key] for name in ("mst", "cliquetree")]
        cells = [f"{one['of processors']:.1f} s ({one['seconds']:.1f} s)" for one in times]
        rows.append([title, *cells])
    return table(["given", "`mst`", "`cliquetree`, users in groups"], rows)


POOL = {
    "cohorts": "cohorts, four repeated columns, two levels",
    "events": "events, many rows per user",
    "patients": "patients, three constants",
}


def pool() -> str:
    """Processor seconds per million rows of synthetic users."""
    found = kept("pool")["found"]
    head = ["table", "rows of the pool drawn", "dealt", "in order", "chosen", "all", "peak memory"]
    rows = []
    for name, title in POOL.items():
        one = found[f"{name}, 1000000 rows"]
        dealt = one["segments"] + one["deal"]
        cells = [f"{x:.1f}" for x in (one["draw"], dealt, one["order"], one["choice"])]
        rows.append([title, *cells, f"{one['all']:.0f}", f"{one['MB'] / 1000:.1f} GB"])
    return table(head, rows)


USER_MEASURES = {
    "rows": "rows (pairs)",
    "same": "same column",
    "cross": "cross",
    "distinct": "distinct values",
    "mode": "most frequent value",
    "gap": "gap",
}
WORST = {"total": "rows in all", "p90": "90th", "p99": "99th"}


def users() -> str:
    """Total variation of what users do: ids dealt at random / as fastdp deals them."""
    from .users import TITLES

    found = kept("users")["found"]
    rows = []
    for name, epsilon in dict.fromkeys(tuple(key.split(", ")[:2]) for key in found):
        sides = [found.get(f"{name}, {epsilon}, {source}") for source in ("private", "auto")]
        if None in sides:
            continue
        cells = [" / ".join(bare(side[m]) for side in sides) for m in USER_MEASURES]
        worst = [f"{100 * sides[1][m]:+.1f} %" for m in WORST]
        rows.append([f"{TITLES[name]}, {epsilon.removeprefix('epsilon ')}", *cells, *worst])
    return table(["table, epsilon", *USER_MEASURES.values(), *WORST.values()], rows)


PROCESSORS = {"0xd0c": "ARM Neoverse N1"}
COUNTERS = {
    "numpy": "numpy",
    "mbi": "mbi",
    "duckdb": "DuckDB",
    "polars": "Polars",
    "pandas": "pandas",
}


def where(record: dict) -> str:
    """The machine of a file: "2 cores of ARM Neoverse N1"."""
    about = record["machine"]
    name = PROCESSORS.get(about["processor"], about["processor"])
    name = name.replace("(R)", "").split(" @ ")[0].removesuffix(" Processor")
    return f"{about['cores']} cores of {name}"


def times(value: float) -> str:
    """How many times as long: 6.1x, 43x, 1,130x."""
    return f"{float(f'{value:.2g}') if value < 1000 else float(f'{value:.3g}'):,g}x"


def _slower(ways: dict, field: str) -> str:
    """Peers by how many times as long they take as fastdp, quickest first."""
    own = ways["fastdp"][field]
    found = sorted((ways[key][field] / own, name) for key, name in COUNTERS.items() if key in ways)
    return ", ".join(f"{name} {times(ratio)}" for ratio, name in found)


def _counting() -> list[list[str]]:
    record = kept("counting")
    titles = {result["title"]: result["jobs"] for result in record["results"]}
    jobs = titles["10,000,000 simulated taxi rows"]
    about = {
        "all 59": "all 59 AdaGrid marginals, weighted",
        "7 outer": "the 7 outer ones, the rest by projection",
    }
    rows = []
    for job, title in about.items():
        slower = f"{_slower(jobs[job], 'seconds')} slower"
        used = f"by processor time {_slower(jobs[job], 'cpu_seconds')}"
        seconds = f"{jobs[job]['fastdp']['seconds']:.3f} s"
        rows.append([title, seconds, f"{slower}; {used}", where(record)])
    return rows


def _reading() -> list[list[str]]:
    encode = kept("encode")
    trips = encode["results"][0]["figures"]
    read = kept("reading")
    csv = {name: one["cpu_seconds"] for name, one in read["figures"].items()}
    took = trips["fastdp"]["seconds"]
    ratio = took / trips["polars"]["seconds"]
    other = csv["other checkout, CSV"] / csv["fastdp, CSV"]
    return [
        [
            "Parquet to codes and weights",
            f"{took:.1f} s",
            f"{ratio:.1f} times what Polars takes to read it",
            where(encode),
        ],
        [
            "CSV to codes, every line read by itself",
            f"{csv['fastdp, CSV']:.1f} s of processor time",
            f"{times(other)} with Arrow's reader, commit `{read['other_checkout']}`",
            where(read),
        ],
    ]


ESTIMATED = {
    "adagrid-eps1": "one call of the estimator, AdaGrid queries, epsilon 1",
    "adagrid-eps10": "the same, epsilon 10",
    "identity-eps10": "one call, identity queries on the 7 outer marginals, epsilon 10",
    "wide": "one call, a tree of 110 columns",
}


def _estimator() -> list[list[str]]:
    record = kept("estimator")
    rows = []
    for key, title in ESTIMATED.items():
        ways = record[key]["contestants"]
        own = ways["fastdp"]
        mbi = ways["mbi accelerated"]
        single = ways["fastdp float32"]
        slower = times(mbi["per_call"] / own["per_call"])
        memory = times(mbi["peak_mb"] / own["peak_mb"])
        rows.append(
            [
                title,
                f"{1e3 * own['per_call']:.3g} ms, {own['peak_mb']:.0f} MB; float32"
                f" {1e3 * single['per_call']:.3g} ms",
                f"mbi {slower} slower after {mbi['compile']:.0f} s of compilation, {memory} the"
                " memory",
                where(record[key]),
            ]
        )
    ways = record["sampling"]["contestants"]
    own = ways["1000000 fastdp"]["seconds"]
    mbi = [ways[f"1000000 {name}"]["seconds"] / own for name in ("mbi extension", "mbi")]
    rows.append(
        [
            "1 million rows from the fitted taxi model",
            f"{own:.2f} s (10 million: {ways['10000000 fastdp']['seconds']:.2f} s)",
            f"mbi {times(mbi[0])} (its fastest sampler) to {times(mbi[1])} slower",
            where(record["sampling"]),
        ]
    )
    return rows


def _noise() -> list[str]:
    record = kept("noise")
    lines = [x for x in record["results"] if x["law"] == "gaussian" and x["scale"] >= 0.1]
    ratios = sorted(line["ratio"] for line in lines)
    return [
        "exact Gaussian noise, one core",
        f"{max(line['fastdp_ns'] for line in lines):.0f} ns a sample",
        f"OpenDP {times(ratios[0])} to {times(ratios[-1])} slower (scales 0.3 to 1e12)",
        where(record),
    ]


def _whole() -> list[list[str]]:
    large = kept("large")
    model = large["found"]["100000000 to the noise level"]
    record = kept("job-times")
    rows = [
        [
            "a model of 100 million cells",
            f"{model['per_call']:.2f} s a call, {model['seconds']:.1f} s to the noise level,"
            f" {model['peak_gb']:.1f} GB",
            "",
            where(large),
        ]
    ]
    for size in ("10,000,000", "1,000,000"):
        both = [record["found"][f"{size} rows, epsilon {e}"] for e in ("1", "10")]
        seconds = " / ".join(f"{one['seconds']:.1f} s" for one in both)
        memory = " / ".join(f"{one['peak_gb']:.2f}" for one in both)
        rows.append(
            [
                f"whole job, {size} rows, Parquet to synthetic Parquet, epsilon 1 / 10",
                f"{seconds}, {memory} GB",
                "none does it",
                where(record),
            ]
        )
    return rows


def measured() -> str:
    """Work on 10 million simulated trips, beside peers in the same run."""
    rows = [*_counting(), *_reading(), _noise(), *_estimator(), *_whole()]
    return table(["work", "fastdp", "peers", "machine"], rows)


PUBLIC = (
    "none",
    "another year",
    "same, 10 %",
    "same, 100 %",
    "other people",
    "shuffled",
    "relabelled",
)


def public() -> str:
    """Errors with public data over those without, by table, mechanism and kind of public data."""
    rows = []
    for one in kept("public")["lines"]:
        alone = one["public"] == "none"
        ratios = [one[f"ratio_{size}"] for size in ("two", "three")]
        ratio = " / ".join(f"{mean:.3f} ± {half:.3f}" for mean, half in ratios)
        rested = one["mechanism"] != "adagrid" and not alone
        about = [one["table"], one["mechanism"], f"{one['epsilon']:g}", one["public"]]
        error = f"{bare(one['two'], 4)} / {bare(one['three'], 4)}"
        cells = [str(one["seeds"]), error, "" if alone else ratio]
        rows.append([*about, *cells, f"{one['rested']:.1f}" if rested else ""])
    ranks = {name: i for i, name in enumerate(PUBLIC)}
    rows.sort(key=lambda row: (row[0], row[1], float(row[2]), ranks[row[3]]))
    head = ["table", "mechanism", "epsilon", "public", "seeds", "error", "ratio", "rest on it"]
    return table(head, rows)


def archetypes() -> str:
    """Scores of the year after the public one, with half of the 95 % interval over seeds."""
    found = kept("archetypes-scores")["found"]
    titles = {
        "overall": "overall",
        "k_marginal_score": "k-marginal",
        "pickup_dropoff_score": "pickup-dropoff",
        "higher_order_conjunction": "conjunctions",
    }
    rows = []
    for name, scores in found["scores"].items():
        cells = []
        for key in titles:
            if key in scores:
                mean, half = scores[key]
                digits = 1 if key == "overall" else 4
                cells.append(f"{mean:.{digits}f} +- {half:.{digits}f}")
            else:
                cells.append("")
        rows.append([name, *cells])
    return table(["", *titles.values()], rows)


THREADED = {
    "call, identity": ("one call, identity", ""),
    "call, adagrid": ("one call, AdaGrid", "8"),
    "fit, adagrid": ("whole fit, AdaGrid", "6"),
    "fit, dual": ("whole fit, identity (dual)", "8"),
    "59 marginals": ("59 marginals of 5 million rows", "10"),
    "10M rows sampled": ("10 million rows sampled", "10"),
    "Parquet read": ("5 million rows of Parquet read", "8"),
    "CSV read": ("5 million rows of CSV read", "8"),
    "Parquet written": ("5 million rows decoded, written to Parquet", "8"),
    "pass, dual": ("a pass of the dual (its fit by 64 passes)", ""),
}
RATES = ("bandwidth", "arithmetic")
"""More is better: GB/s and operations."""


def cores() -> str:
    """The same work on 1 to 16 threads: milliseconds, and how many times as fast on 16."""
    found = kept("cores")["found"]
    counts = ("1", "2", "4", "8", "16")
    rows = []
    for key, (title, goal) in THREADED.items():
        seconds = [found[key][n] for n in counts]
        cells = [f"{1e3 * s:,.{1 if s < 0.0205 else 0}f}" for s in seconds]
        gain = f"{float(f'{seconds[0] / seconds[-1]:.2g}'):g}"
        rows.append([title, *cells, gain, goal])
    for key in RATES:
        rates = [found[key][n] for n in counts]
        gain = f"{float(f'{rates[-1] / rates[0]:.2g}'):g}"
        rows.append([key, *(f"{float(f'{rate:.3g}'):g}" for rate in rates), gain, ""])
    return table(["threads", *counts, "16 against 1", "wanted"], rows)


def builds() -> str:
    """Processor time of the build of the stable ABI over the one before it, piece by piece."""
    found = kept("builds")["pieces"]
    rows = [
        [re.sub(r"bench\.(\w+)", r"`bench.\1`", name), f"{one['ratio']:.2f}"]
        for name, one in found.items()
    ]
    return table(["work, one thread, processor time", "time over that before"], rows)


def scale() -> str:
    """Reading and counting 10 million to a billion rows. The clock of the last line says nothing:
    its rows are simulated as they are read."""
    local, billion = (kept(f"scale-{name}")["sizes"] for name in ("local", "billion"))
    rows = []
    for one in [*local, billion[-1]]:
        simulated = one["simulate"] > 0
        a_row, grown = ("cpu_ns_a_row", "linearity_cpu") if simulated else ("ns_a_row", "linearity")
        memory = [f"{one['peak_mb'] / 1e3:.1f} GB"]
        if one["spooled_mb"]:
            memory.append(f"{one['spooled_mb'] / 1e3:.1f} GB codes in unnamed files")
        rows.append(
            [
                f"{one['rows']:,}" + (", simulated as they are read" if simulated else ""),
                f"{one['read']:,.{0 if simulated else 1}f} s",
                f"{one['count']:,.{0 if simulated else 2}f} s",
                f"{one[a_row]:.0f} ns" + (" of the processor" if simulated else ""),
                f"{one[grown]:.2f}" + (" by the processor" if simulated else ""),
                f"{one['cpu']:,.{0 if simulated else 1}f} s",
                ", of which ".join(memory),
            ]
        )
    head = ["rows", "read and encode", "count", "a row", "against 10 million", "processor"]
    return table([*head, "peak memory"], rows)


FITTED = {
    ("chicago", 1.0): "Chicago, coded, epsilon 1",
    ("chicago", 10.0): "Chicago, coded, epsilon 10",
    ("taxi, trips of seed 0", 1.0): "10M simulated trips, epsilon 1",
    ("taxi", 1.0): "1M simulated trips, epsilon 1",
    ("taxi", 10.0): "1M simulated trips, epsilon 10",
    ("adult", 1.0): "adult, six outer marginals, epsilon 1",
    ("adult", 10.0): "adult, epsilon 10",
}
FIT_SCORES = ("k-marginal", "pickup-dropoff", "2-way", "3-way")


def adagrid_fits() -> str:
    """Calls and scores by the flow and by mirror descent: means over the seeds that both have."""
    today, before = kept("adagrid-fits")["runs"], kept("adagrid-fits-before")
    runs: dict[tuple, dict[tuple, dict]] = defaultdict(dict)
    for one in [*today, *before["runs"], *before["flow_on_ten_million"]]:
        runs[one["case"], one["epsilon"]][one["method"], one["seed"]] = one
    rows = []
    for case, title in FITTED.items():
        seeds = [n for way, n in runs[case] if way == "flow" and ("accelerated", n) in runs[case]]

        def both(key: str, form: str, case=case, seeds=seeds) -> str:
            means = []
            for way in ("flow", "accelerated"):
                found = [runs[case][way, n].get(key) for n in seeds]
                if None in found:
                    return ""
                means.append(format(math.fsum(found) / len(found), form))
            return " / ".join(means)

        few = " (two seeds)" if len(seeds) == 2 else ""
        rows.append([title + few, both("calls", ",.0f"), *(both(k, ".4f") for k in FIT_SCORES)])
    return table(["measurements", "calls", *FIT_SCORES], rows)


CENSUS_SCORES = {
    "score": "nist2018",
    "three_way": "three-way",
    "conjunctions": "conjunctions",
    "income": "income",
}


def census() -> str:
    """Scores of 2018's challenge by epsilon, beside samples of the true rows."""
    found = kept("census-scores")["found"]
    rows = []
    for run in found["runs"]:
        scores = [f"{run['nist2018'][name]:.3f}" for name in CENSUS_SCORES]
        size = [f"{run['peak_gb']:.1f} GB", f"{run['model_cells'] / 1e6:.1f} million"]
        left_out = str(len(run["left_out"]))
        rows.append(
            [f"epsilon {run['epsilon']:g}", *scores, f"{run['seconds']:.0f}", *size, left_out]
        )
    for name, sample in found["samples"].items():
        scores = [f"{sample[key]:.3f}" for key in CENSUS_SCORES]
        rows.append([f"{name.replace('%', ' %')}, not private", *scores, "", "", "", ""])
    titles = ["seconds", "peak memory", "model cells", "left out"]
    return table(["", *CENSUS_SCORES.values(), *titles], rows)


BLOCKS: dict[str, Callable[[], str]] = (
    {
        "adagrid_fits": adagrid_fits,
        "archetypes": archetypes,
        "builds": builds,
        "census": census,
        "cores": cores,
        "coverage": coverage,
        "measured": measured,
        "on_demand_times": on_demand_times,
        "pool": pool,
        "public": public,
        "push_down": push_down,
        "scale": scale,
        "series": series,
        "since": since.block,
        "users": users,
        "versions": versions.block,
        "versions_users": versions_users.block,
    }
    | tune.BLOCKS
    | numbers_tables.BLOCKS
    | guide_tables.BLOCKS
)
