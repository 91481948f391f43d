"""Do intervals of `run.answer` cover? Share of true numbers inside nominal 95 % intervals,
beside naive ones.

    python -m bench.coverage [--tables adult chicago simulated] [--epsilon 1 10] [--seeds 4] [--jobs 1]
                             [--data FOLDER] [--file TABLE.csv[:USER]]

Tables: adult (each row its own user), real taxi trips and simulated ones with users, all in codes;
and on request `trial`, `orders`, `diary`, `busy` and any file (bench/coverage_tables.py). Kinds of query:
cells of single columns, of measured and of unmeasured pairs (also by their true size), values that
were merged in pairs, shares, totals of groups of cells, group means, their differences and group
sums ("bounded": of these, those over merged values), coefficients of a logistic regression. Widths
are compared with those of the experiments that the method was chosen by (`REFERENCE`), and the
share of all pair cells that have an interval is printed. "before" is the model's estimate with its
own standard error, as `Model.answer` gives it; the naive interval treats synthetic rows as a sample
of the data. The binomial error of each figure is in brackets; intervals of one run are not
independent, so it is a lower bound. Kept in bench/results/coverage.json, drawn in
bench/results/coverage.svg.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import combinations, product
from pathlib import Path

import numpy as np

import fastdp

from . import coverage_tables, machine

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
PAIRS = 12
"""Pairs of each kind that each run looks at."""
MEANS = 40
"""Pairs for means that each run looks at."""
CELLS = ("single column", "measured pair", "unmeasured pair")
QUESTION_KINDS = (
    *CELLS,
    "merged value",
    "share",
    "group total",
    "mean",
    "difference",
    "sum",
    "bounded",
    "coefficient",
    "any pair",
)
SIZES = {
    "0": (-1, 0),
    "1-10": (0, 10),
    "11-100": (10, 100),
    ">100": (100, np.inf),
    ">1000": (1000, np.inf),
}
REFERENCE = {
    ("adult", 1.0, "measured pair"): {"1-10": 34, "11-100": 50, ">100": 70},
    ("adult", 10.0, "measured pair"): {"1-10": 6.4, "11-100": 8.0, ">100": 9.4},
}
"""Median half-widths, in rows, of the best linear combination of measurements in those experiments.
With users they were .18 to .71 of the count for single columns above 1,000 rows."""
WHO = ("answer", "before", "naive")


def adult(data: Path):
    import pyarrow.csv as csv

    folder = data / "adult"
    sizes = json.loads((folder / "adult-domain.json").read_text())
    frame = csv.read_csv(folder / "adult.csv")
    return sizes, {a: frame[a].to_numpy().astype(np.int64) for a in sizes}, None


def codes_of(values) -> np.ndarray:
    """Texts or numbers as codes, the most frequent first."""
    import polars as pl

    column = pl.Series("x", values).cast(pl.String).fill_null("?")
    order = column.value_counts(sort=True)["x"].to_list()
    return column.replace_strict(
        dict(zip(order, range(len(order)))), return_dtype=pl.Int64
    ).to_numpy()


def binned(values, edges) -> np.ndarray:
    x = np.asarray(values, float)
    return np.where(np.isnan(x), len(edges) + 1, np.searchsorted(edges, x, side="right"))


# Edges of bins.
FARES = [5, 7, 9, 12, 16, 25, 35, 45, 60]
MILES = [0.1, 0.7, 1.2, 2, 4, 8, 12, 18]
TIPS = [0.01, 2, 3, 5, 9]


def chicago(data: Path):
    import polars as pl

    trips = pl.read_parquet(data / "taxi-chicago-2022" / "trips.parquet")
    trips = trips.filter(
        pl.col("taxi_id").is_not_null() & pl.col("trip_start_timestamp").is_not_null()
    )
    columns = {
        "hour": trips["trip_start_timestamp"].dt.hour().to_numpy().astype(np.int64),
        "company": codes_of(trips["company"]),
        "pickup": codes_of(trips["pickup_community_area"]),
        "dropoff": codes_of(trips["dropoff_community_area"]),
        "pay": codes_of(trips["payment_type"]),
        "fare": binned(trips["fare"].to_numpy(), FARES),
        "miles": binned(trips["trip_miles"].to_numpy(), MILES),
        "tips": binned(trips["tips"].to_numpy(), TIPS),
    }
    return {a: int(c.max()) + 1 for a, c in columns.items()}, columns, codes_of(trips["taxi_id"])


def simulated(data: Path, rows: int = 300_000):
    trips = fastdp.simulate.taxi(rows, seed=1)
    names = {"shift": "shift", "company_id": "company", "pickup_community_area": "pickup"}
    names["payment_type"] = "pay"
    columns = {new: codes_of(trips[old].to_numpy()) for old, new in names.items()}
    columns["fare"] = binned(trips["fare"].to_numpy(), FARES)
    columns["miles"] = binned(trips["trip_miles"].to_numpy(), [1, 2, 3, 5, 8, 12, 18])
    columns["tips"] = binned(trips["tips"].to_numpy(), [1, 2, 3, 5, 9])
    return {a: int(c.max()) + 1 for a, c in columns.items()}, columns, trips["taxi_id"].to_numpy()


TABLES = {"adult": (adult, 1e-9), "chicago": (chicago, 1e-5), "simulated": (simulated, 1e-5)}
SHOWN = list(TABLES)
TABLES |= {
    name: (lambda data, make=make: make(), 1e-5) for name, make in coverage_tables.GENERATED.items()
}


def schema_of(sizes, user: bool):
    plain = fastdp.Schema.from_domain(sizes, user="uid" if user else None).to_plain()
    if user:
        plain["user"] = {"column": "uid", "max_rows": 1024}
    return fastdp.Schema.from_dict(plain)


class Tally:
    """Intervals asked for, given, and holding the truth, with their half-widths; all, and by size
    of the truth."""

    def __init__(self):
        self.asked = 0
        self.given = [np.zeros((3, 0))]

    def add(self, truth, low, high):
        known = np.isfinite(low) & np.isfinite(high) & np.isfinite(truth)
        near = 1e-6 * np.maximum(1.0, np.abs(truth))
        inside = (truth >= low - near) & (truth <= high + near)
        self.asked += truth.size
        self.given.append(np.stack([truth, inside, (high - low) / 2])[:, known])

    def join(self, other):
        self.asked, self.given = self.asked + other.asked, self.given + other.given

    def line(self, sizes: bool = False) -> dict:
        given = np.concatenate(self.given, 1)
        out = {
            "intervals": given.shape[1],
            "unknown": self.asked - given.shape[1],
            **covered(given),
        }
        if sizes:
            within = {
                k: given[:, (given[0] > low) & (given[0] <= high)]
                for k, (low, high) in SIZES.items()
            }
            out["sizes"] = {
                k: covered(g) | {"intervals": g.shape[1]} for k, g in within.items() if g.size
            }
        return out


def covered(given) -> dict:
    truth, inside, width = given
    p = float(inside.mean()) if truth.size else 0.0
    relative = float(np.mean(width / np.maximum(abs(truth), 1e-9))) if truth.size else None
    return {
        "coverage": p,
        "binomial_error": float(np.sqrt(p * (1 - p) / max(1, truth.size))),
        "half_width": float(np.median(width)) if truth.size else None,
        "relative_half_width": relative,
    }


def counts(columns, sizes, names):
    index = np.zeros(len(next(iter(columns.values()))), np.int64)
    for a in names:
        index = index * sizes[a] + columns[a]
    return np.bincount(index, minlength=int(np.prod([sizes[a] for a in names]))).astype(float)


def ends(found):
    return (found[c].to_numpy(zero_copy_only=False).astype(float) for c in ("low", "high"))


def logistic(columns, sizes):
    """(coefficients, standard errors) of one column's code 0 on the codes of up to four others, by
    Newton's method."""
    target = min(sizes, key=lambda a: sizes[a])
    names = [a for a in sizes if a != target][:4]
    x = np.stack([np.ones(len(columns[target])), *(columns[a] / sizes[a] for a in names)], 1)
    y = (columns[target] == 0).astype(float)
    beta = np.zeros(x.shape[1])
    for _ in range(12):
        p = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
        information = (x * (p * (1 - p))[:, None]).T @ x + 1e-6 * np.eye(len(beta))
        beta = beta + np.linalg.solve(information, x.T @ (y - p))
    return beta, np.sqrt(np.diag(np.linalg.inv(information)))


def one_run(tallies, sizes, columns, user, epsilon, delta, seed) -> None:
    import pyarrow as pa

    table = pa.table(columns | ({} if user is None else {"uid": user}))
    schema = schema_of(sizes, user is not None)
    run = fastdp.synthesize(
        table,
        "cliquetree",
        epsilon,
        delta,
        schema=schema,
        seed=seed,
        sample_seed=seed,
        progress=False,
    )
    drawn = {a: run.data[a].to_numpy().astype(np.int64) for a in sizes}
    rows = len(next(iter(columns.values())))
    rng = np.random.default_rng(seed)

    def naive(kind, names, truth):
        made = counts(drawn, sizes, names)
        p = made / max(1.0, made.sum())
        half = 1.96 * np.sqrt(made.sum() * p * (1 - p))
        tallies["naive", kind].add(truth, made - half, made + half)

    def ask(kind, names):
        truth = counts(columns, sizes, names)
        found = run.answer("count", names)
        merged = np.array(["counted together" in note for note in found["note"].to_pylist()])
        low, high = ends(found)
        for mine, lines in ((kind, ~merged), ("merged value", merged)):
            tallies["answer", mine].add(truth[lines], low[lines], high[lines])
        naive(kind, names, truth)
        if all(run.model.domain[a] == sizes[a] for a in names):
            values, error = run.model.answer(None, names)
            tallies["before", kind].add(truth, values - 1.96 * error, values + 1.96 * error)

    def add(kind, truth, found):
        """Where values were merged, an interval is a bound that covers by construction."""
        low, high = ends(found)
        bounded = np.array([b is not None and b > 0 for b in found["bins"].to_pylist()])
        for mine, lines in ((kind, ~bounded), ("bounded", bounded)):
            tallies["answer", mine].add(truth[lines], low[lines], high[lines])

    held = [set(m.clique) for m in run.measurements]
    pairs = [p for p in combinations(sizes, 2) if np.prod([sizes[a] for a in p]) <= 4000]
    measured = [p for p in pairs if any(set(p) <= h for h in held)]
    others = [p for p in pairs if p not in measured]
    for a in sizes:
        ask("single column", (a,))
        tallies["answer", "share"].add(
            counts(columns, sizes, (a,)) / rows, *ends(run.answer("share", (a,)))
        )
    for kind, sets in (("measured pair", measured), ("unmeasured pair", others)):
        for i in rng.permutation(len(sets))[:PAIRS]:
            ask(kind, sets[i])
    for p in combinations(sizes, 2):  # which cells have an interval: one look at each pair
        table = run._facts.table(p)
        given = np.full(
            sizes[p[0]] * sizes[p[1]], 0.0 if table is not None and table.known is None else np.nan
        )
        tallies["answer", "any pair"].add(given, given, given)
    for by, of in (measured[i] for i in rng.permutation(len(measured))[:PAIRS]):
        half = list(range(0, sizes[of], 2))
        truth = counts(columns, sizes, (by, of)).reshape(sizes[by], sizes[of])[:, half].sum(1)
        found = run.answer("count", by, {of: half})
        add("group total", truth, found)
    real, _ = logistic(columns, sizes)
    made, error = logistic(drawn, sizes)
    tallies["naive", "coefficient"].add(real, made - 1.96 * error, made + 1.96 * error)
    for i in rng.permutation(len(measured))[:MEANS]:
        by, of = sorted(measured[i], key=lambda a: sizes[a])
        truth = counts(columns, sizes, (by, of)).reshape(sizes[by], sizes[of])
        with np.errstate(all="ignore"):
            mean = truth @ np.arange(sizes[of]) / truth.sum(1)
        for kind, real in (("mean", mean), ("sum", truth @ np.arange(sizes[of]))):
            add(kind, real, run.answer(f"{kind}({of})", by))
        top = int(np.argmax(run.answer("count", by)["estimate"].to_numpy()))
        found = run.answer(f"mean({of})", by, minus={by: top})
        keep = np.arange(sizes[by]) != top
        add("difference", (mean - mean[top])[keep], found.filter(keep))


def empty():
    return {(who, kind): Tally() for who in WHO for kind in QUESTION_KINDS}


def job(name, epsilon, seed, data):
    """The tallies of one run; a process reads its table once."""
    if name not in _READ:
        _READ.clear()
        _READ[name] = TABLES[name][0](data)
    tallies = empty()
    one_run(tallies, *_READ[name], epsilon, TABLES[name][1], seed)
    return (name, epsilon), tallies


_READ: dict = {}


def measure(tables, epsilons, seeds, first, data, jobs) -> list[dict]:
    asked = [(*p, data) for p in product(tables, epsilons, range(first, first + seeds))]
    sums = {(name, epsilon): empty() for name, epsilon, _, _ in asked}
    with ProcessPoolExecutor(jobs) as pool:
        for key, tallies in (
            pool.map(job, *zip(*asked, strict=True)) if jobs > 1 else map(job, *zip(*asked))
        ):
            for which, tally in tallies.items():
                sums[key][which].join(tally)
    out = []
    for (name, epsilon), tallies in sums.items():
        for (who, kind), tally in tallies.items():
            if tally.asked:
                line = {"table": name, "epsilon": epsilon, "runs": seeds, "who": who, "kind": kind}
                out.append(line | tally.line(who == "answer" and kind in CELLS))
                print(text(out[-1]), flush=True)
    return out


def text(line) -> str:
    width = "-" if line["half_width"] is None else f"{line['half_width']:.3g}"
    if line["kind"] == "any pair":
        share = line["intervals"] / (line["intervals"] + line["unknown"])
        return (
            f"{line['table']:10} epsilon {line['epsilon']:<4g} pair cells with an interval:"
            f" {share:.1%}"
        )
    out = [
        f"{line['table']:10} epsilon {line['epsilon']:<4g} {line['who']:6} {line['kind']:16}"
        f" {100 * line['coverage']:5.1f} % ({100 * line['binomial_error']:.1f}) of"
        f" {line['intervals']:6}, half-width {width}, unknown {line['unknown']}"
    ]
    reference = REFERENCE.get((line["table"], line["epsilon"], line["kind"]), {})
    for size, own in line.get("sizes", {}).items():
        if size in reference:
            times = f", {own['half_width'] / reference[size]:.2f} of the experiments'"
        else:
            times = ""
        relative = f", {own['relative_half_width']:.2f} of the count" if size == ">1000" else ""
        rate = (
            f"{100 * own['coverage']:5.1f} % ({100 * own['binomial_error']:.1f}) of"
            f" {own['intervals']:6}"
        )
        out.append(f"{size:>44} {rate}, half-width {own['half_width']:.3g}{times}{relative}")
    return "\n".join(out)


COLOURS = {"answer": "#c0392b", "before": "#2471a3", "naive": "#7f8c8d"}


def picture(lines) -> str:
    """Coverage by kind of query, a dot for each analysis, a line at 95 % and a band from 93 to 98
    %. Kinds that are covered by construction are not drawn."""
    left = 250
    top = 30
    width = 420
    row = 18
    drawn = [r for r in lines if r["kind"] not in ("any pair", "merged value", "bounded")]
    names = list(dict.fromkeys((r["table"], r["epsilon"], r["kind"]) for r in drawn))
    height = top + row * len(names) + 30
    x = lambda p: left + width * p  # noqa: E731
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 40} {height}" '
            'font-family="sans-serif" font-size="11">'
        ),
        (
            f'<rect x="{x(0.93)}" y="{top - 8}" width="{width * 0.05}" height="{height - top - 17}"'
            ' fill="#eee"/>'
        ),
        (
            f'<line x1="{x(0.95)}" x2="{x(0.95)}" y1="{top - 8}" y2="{height - 25}" stroke="#999" '
            'stroke-dasharray="3"/>'
        ),
        *(
            f'<text x="{x(p)}" y="{top - 12}" text-anchor="middle">{p:.0%}</text>'
            for p in (0, 0.25, 0.5, 0.75)
        ),
        f'<text x="{x(0.95)}" y="{top - 12}" text-anchor="middle">95 %</text>',
    ]
    for i, name in enumerate(names):
        y = top + row * i + 6
        label = f"{name[0]}, {name[1]:g}: {name[2]}"
        parts.append(f'<text x="{left - 12}" y="{y + 4}" text-anchor="end">{label}</text>')
        for r in lines:
            if (r["table"], r["epsilon"], r["kind"]) == name and r["intervals"]:
                colour = COLOURS[r["who"]]
                parts.append(
                    f'<circle cx="{x(r["coverage"]):.1f}" cy="{y}" r="4" fill="{colour}"/>'
                )
    legend = height - 8
    said = {"answer": "run.answer", "before": "Model.answer", "naive": "naive, from synthetic rows"}
    for i, (who, words) in enumerate(said.items()):
        parts.append(
            f'<text x="{left + 110 * i}" y="{legend}" fill="{COLOURS[who]}">{words}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", default=SHOWN, choices=list(TABLES))
    parser.add_argument(
        "--file", nargs="+", default=[], metavar="TABLE.csv[:USER]", help="any table"
    )
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=9100, help="seeds nothing was chosen by")
    parser.add_argument(
        "--jobs", type=int, default=1, help="runs at once, each in a process of its own"
    )
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the shared tables")
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    here = [t for t in options.tables if t not in ("adult", "chicago") or options.data.is_dir()]
    for given in options.file:
        path, _, user = given.partition(":")
        make = partial(coverage_tables.of_file, Path(path), user or None)
        TABLES[Path(path).stem] = (lambda data, make=make: make(), 1e-5)
    here += [Path(given.partition(":")[0]).stem for given in options.file]
    lines = measure(
        here, options.epsilon, options.seeds, options.first_seed, options.data, options.jobs
    )
    if not options.no_save:
        path = machine.RESULTS / "coverage.json"
        kept = json.loads(path.read_text()) if path.exists() else []
        fresh = {(r["table"], r["epsilon"]) for r in lines}
        kept = [r for r in kept if (r["table"], r["epsilon"]) not in fresh] + lines
        path.write_text(json.dumps(kept, indent=1) + "\n")
        (machine.RESULTS / "coverage.svg").write_text(picture(kept))


if __name__ == "__main__":
    main()
