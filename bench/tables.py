"""Any table: error against seconds of `cliquetree`, `mst` and `aim`, beside the peers that install.

`python -m bench.tables` runs adult and the Massachusetts table of the shared data where they are,
and two generated tables on which nothing was chosen, at epsilon 0.1, 1 and 10 and delta 1e-9, with
fresh seeds; it prints means, keeps them in bench/results/tables.json and draws
bench/results/tables.svg. Errors are mean total variations of all pairs and of 50 triples, and those
of the worst pair and triple; of adult also the AUC, on the real rows, of a model trained on the
synthetic ones (scikit-learn, where it is installed). `--jobs N` runs N seeds at once, each in a
process of its own. `--peers LIBRARY=PYTHON ...` names interpreters that have mbi, dpmm, smartnoise
(smartnoise-synth) or opendp; each run of a peer is a process of its own that may use `--limit`
seconds of the processor, whatever else the machine does. What bench/results/tables.json holds of
other tables, epsilons and mechanisms stays, so that peers can be run by themselves (`--ours` with
nothing after it).
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import combinations, product
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import fastdp

from . import machine
from .labels import CHARACTER, RADIUS, label_boxes

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
DELTA = 1e-9
OURS = ("cliquetree", "mst", "aim")
PEERS = (
    "mbi MST",
    "mbi AIM",
    "dpmm MST",
    "dpmm AIM",
    "opendp MST",
    "opendp AIM",
    "smartnoise MST",
    "smartnoise AIM",
)
MOST_COLUMNS = {"aim": 24}
"""AIM looks at all triples in every round."""
COLOURS = {"cliquetree": "#c0392b", "mst": "#e59866", "aim": "#b7950b"}


def functional(rows=100_000, columns=20, seed=11):
    """Columns that nearly follow from an earlier one: 1 to 30 % of the rows are redrawn."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 5, 12, 40, 90], columns)
    out = [rng.choice(sizes[0], rows, p=rng.dirichlet(np.full(sizes[0], 0.5)))]
    for n in sizes[1:]:
        parent = out[rng.integers(0, len(out))]
        values = rng.integers(0, n, parent.max() + 1)[parent]
        again = rng.random(rows) < rng.choice([0.01, 0.05, 0.3])
        out.append(np.where(again, rng.choice(n, rows, p=rng.dirichlet(np.full(n, 0.3))), values))
    return {f"c{i}": (int(n), codes) for i, (n, codes) in enumerate(zip(sizes, out))}


def factors(rows=30_000, columns=32, seed=12):
    """Small and wide: four hidden normal factors, cut into 2 to 120 unequal classes."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(rows, 4))
    out = {}
    for i, n in enumerate(rng.choice([2, 3, 6, 15, 50, 120], columns)):
        score = hidden @ (rng.normal(size=4) * rng.choice([0.2, 1.0], 4)) + rng.normal(size=rows)
        rank = score.argsort().argsort() / rows
        out[f"c{i}"] = (int(n), np.minimum((rank ** rng.choice([1, 3]) * n).astype(int), n - 1))
    return out


def adult():
    import pyarrow.csv as csv

    sizes = json.loads((SHARED / "adult" / "adult-domain.json").read_text())
    frame = csv.read_csv(SHARED / "adult" / "adult.csv")
    return {name: (n, frame[name].to_numpy()) for name, n in sizes.items()}


def massachusetts(most=100, bins=64):
    """ma2019 with every column of more than `most` values in equal-count bins (and one for what is
    not a number)."""
    import pyarrow as pa
    import pyarrow.csv as csv

    options = csv.ConvertOptions(strings_can_be_null=False)
    frame = csv.read_csv(SHARED / "acs-ma" / "ma2019.csv", convert_options=options)
    out = {}
    for name in frame.column_names:
        text = frame[name].cast(pa.string()).fill_null("").to_pylist()
        values, codes = np.unique(text, return_inverse=True)
        if len(values) > most:
            number = np.array(
                [
                    float(t) if t.replace(".", "", 1).lstrip("-").isdigit() else math.nan
                    for t in text
                ]
            )
            rank = np.argsort(np.argsort(number, kind="stable"), kind="stable")
            codes = np.where(np.isnan(number), bins, rank * bins // len(text))
            values = range(bins + 1)
        out[name] = (len(values), codes)
    return out


TABLES = {"adult": adult, "ma2019": massachusetts, "functional": functional, "factors": factors}
UNSEEN = ("functional", "factors")
NEEDS = {"adult": "adult", "ma2019": "acs-ma"}
TARGETS = {"adult": "income>50K"}
FIGURES = ("two", "worst_pair", "three", "worst_triple", "auc", "seconds", "processor")


class Scorer:
    """Mean and largest total variation of all pairs and of 50 triples from one truth, and the
    AUC."""

    def __init__(self, columns, target=None):
        self.domain = {name: n for name, (n, _) in columns.items()}
        self.codes = {a: c for a, (_, c) in columns.items()}
        self.target = target
        self.table = fastdp.Table.from_codes(self.domain, self.codes, public=True)
        triples = list(combinations(self.domain, 3))
        chosen = np.random.default_rng(0).choice(len(triples), min(50, len(triples)), replace=False)
        self.groups = [list(combinations(self.domain, 2)), [triples[i] for i in chosen]]
        self.truth = [fastdp.marginals(self.table, g) for g in self.groups]

    def __call__(self, codes) -> tuple[float, ...]:
        made = fastdp.Table.from_codes(self.domain, codes, public=True)
        out = []
        for cliques, truth in zip(self.groups, self.truth):
            counts = fastdp.marginals(made, cliques)
            gaps = [
                np.abs(truth[c] / self.table.rows - counts[c] / max(1, made.rows)).sum() / 2
                for c in cliques
            ]
            out += [float(np.mean(gaps)), float(np.max(gaps))] if gaps else [0.0, 0.0]
        return (*out, self.auc(codes))

    def auc(self, codes) -> float:
        """The AUC on the real rows of a model trained on these; nan without a target or
        scikit-learn."""
        try:
            from sklearn.linear_model import LogisticRegression
            from sklearn.metrics import roc_auc_score
            from sklearn.preprocessing import OneHotEncoder
        except ImportError:
            return math.nan
        if self.target is None or len(np.unique(codes[self.target])) < 2:
            return math.nan
        names = [a for a in self.domain if a != self.target]
        real, made = (np.stack([rows[a] for a in names], 1) for rows in (self.codes, codes))
        spread = OneHotEncoder(categories=[np.arange(self.domain[a]) for a in names])
        model = LogisticRegression(max_iter=200).fit(
            spread.fit_transform(made), codes[self.target] > 0
        )
        score = model.predict_proba(spread.transform(real))[:, 1]
        return float(roc_auc_score(self.codes[self.target] > 0, score))


def ours(mechanism, columns, epsilon, seed):
    """(codes, seconds, processor seconds): without reading, from the first measurement to rows in
    memory."""
    domain = {name: n for name, (n, _) in columns.items()}
    table = fastdp.Table.from_codes(domain, {a: c for a, (_, c) in columns.items()})
    start = time.perf_counter()
    used = time.process_time()
    run = fastdp.synthesize(table, mechanism, epsilon, DELTA, seed=seed, sample_seed=seed)
    data = run.data
    seconds, used = time.perf_counter() - start, time.process_time() - used
    return {name: data[name].to_numpy() for name in domain}, seconds, used


def peer(name, columns, epsilon, seed, python, limit):
    """(codes, seconds, processor seconds) of a peer in a process of its own, without imports; or
    None, the reason why there are none, and a NaN."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.npz")
        made = Path(folder, "out.npz")
        sizes = json.dumps({a: n for a, (n, _) in columns.items()})
        np.savez(source, sizes=np.array(sizes), **{f"x_{a}": c for a, (_, c) in columns.items()})
        script = Path(__file__).with_name("tables_peers.py")
        command = [
            python,
            str(script),
            name,
            str(source),
            str(made),
            str(epsilon),
            str(DELTA),
            str(seed),
        ]
        bound = (math.ceil(limit), math.ceil(limit))
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, bound),
        )
        if not made.exists():
            if done.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
                return None, f"not done in {limit:g} s of the processor", math.nan
            return None, (done.stderr.strip().splitlines() or ["it failed"])[-1][:200], math.nan
        with np.load(made) as arrays:
            codes = {a: arrays[f"x_{a}"] for a in columns}
            return codes, float(arrays["seconds"]), float(arrays["used"])


@cache
def scorer(name):
    """(columns, scorer) of a table; once in every process."""
    columns = TABLES[name]()
    return columns, Scorer(columns, TARGETS.get(name))


def one_run(name, who, epsilon, seed, python, limit):
    """(figures, None) of one run, or (None, why there are none)."""
    columns, score = scorer(name)
    if who in OURS:
        codes, seconds, used = ours(who, columns, epsilon, seed)
    else:
        codes, seconds, used = peer(who, columns, epsilon, seed, python, limit)
    return (None, seconds) if codes is None else ((*score(codes), seconds, used), None)


def measure(options) -> list[dict]:
    lines = []
    names = [t for t in options.tables if t not in NEEDS or (SHARED / NEEDS[t]).exists()]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for name, epsilon in product(names, options.epsilon):
            peers = options.who if epsilon in options.peer_epsilon else ()
            peers = [who for who in peers if who.split()[0] in options.pythons]
            for who in (*options.ours, *peers):
                if len(TABLES[name]()) > MOST_COLUMNS.get(who, math.inf):
                    continue
                count = options.seeds if who in OURS else min(options.seeds, options.peer_seeds)
                python = options.pythons.get(who.split()[0])
                asked = [
                    (name, who, epsilon, options.first_seed + k, python, options.limit)
                    for k in range(count)
                ]
                if options.jobs == 1:
                    done = [one_run(*a) for a in asked]
                else:
                    done = list(pool.map(one_run, *zip(*asked)))
                runs = [r for r, _ in done if r]
                why = next((w for _, w in done if w), None)
                line = {"table": name, "epsilon": epsilon, "who": who, "runs": runs, "failed": why}
                lines.append(line | (dict(zip(FIGURES, np.mean(runs, 0))) if runs else {}))
                show(lines[-1])
    return lines


def show(line) -> None:
    head = f"{line['table']:10s} epsilon {line['epsilon']:<4g} {line['who']:15s}"
    if not line["runs"]:
        print(f"{head} {line['failed']}", flush=True)
        return
    spread = np.std([r[0] for r in line["runs"]]) / max(1, len(line["runs"]) - 1) ** 0.5
    print(
        f"{head} {line['two']:.4f} +- {spread:.4f} (worst {line['worst_pair']:.3f}) "
        f" {line['three']:.4f} (worst {line['worst_triple']:.3f})  AUC {line['auc']:.3f} "
        f" {line['seconds']:7.2f} s ({line['processor']:.2f} s of the processor)",
        flush=True,
    )


def svg(lines, epsilon=1.0) -> str:
    """Error of pairs against processor seconds, both logarithmic, one panel a table."""
    failed = [line for line in lines if line["failed"] and line["epsilon"] == epsilon]
    lines = [line for line in lines if line["runs"] and line["epsilon"] == epsilon]
    names = list(dict.fromkeys(line["table"] for line in lines))
    wide = 250
    high = 210
    gap = 46
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {len(names) * (wide + gap) + 10}'
            f' {high + 70}" font-family="sans-serif" font-size="11">'
        ),
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for i, name in enumerate(names):
        of_table = [line for line in lines if line["table"] == name]
        xs = [line["processor"] for line in of_table]
        ys = [line["two"] for line in of_table]
        left, right = math.log10(min(xs)) - 0.2, math.log10(max(xs)) + 0.9
        low = math.log10(min(ys)) - 0.1
        top = math.log10(max(ys)) + 0.1
        x0, y0 = gap + i * (wide + gap), 30
        parts.append(f'<text x="{x0}" y="18" font-weight="bold">{name}, epsilon {epsilon:g}</text>')
        parts.append(
            f'<rect x="{x0}" y="{y0}" width="{wide}" height="{high}" fill="none" stroke="#999"/>'
        )
        for power in range(math.ceil(left), math.floor(right) + 1):
            x = x0 + (power - left) / (right - left) * wide
            parts.append(
                f'<text x="{x:.0f}" y="{y0 + high + 14}" text-anchor="middle">{10.0**power:g}'
                " s</text>"
            )
        for value in (min(ys), max(ys)):
            y = y0 + (top - math.log10(value)) / (top - low) * high
            parts.append(f'<text x="{x0 - 4}" y="{y:.0f}" text-anchor="end">{value:.3f}</text>')
        taken = []
        for k, line in enumerate(line for line in failed if line["table"] == name):
            text = f"{line['who']}: {line['failed']}"
            taken.append(
                (x0 + 6, y0 + 6 + 14 * k, x0 + 6 + CHARACTER * len(text), y0 + 18 + 14 * k)
            )
            parts.append(f'<text x="{x0 + 6}" y="{y0 + 16 + 14 * k}" fill="#34495e">{text}</text>')
        points = [
            (
                x0 + (math.log10(line["processor"]) - left) / (right - left) * wide,
                y0 + (top - math.log10(line["two"])) / (top - low) * high,
            )
            for line in of_table
        ]
        texts = [
            f"fastdp {line['who']}" if line["who"] in OURS else line["who"] for line in of_table
        ]
        boxes = label_boxes(points, texts, (x0, y0, x0 + wide, y0 + high), taken)
        for line, (x, y), text, box in zip(of_table, points, texts, boxes):
            colour = COLOURS.get(line["who"], "#34495e")
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS:g}" fill="{colour}"/>')
            parts.append(
                f'<text x="{box[0]:.1f}" y="{box[3] - 2:.1f}" fill="{colour}">{text}</text>'
            )
    caption = "mean total variation of all pairs against processor seconds; down and left is better"
    parts.append(f'<text x="{gap}" y="{high + 62}" fill="#555">{caption}</text></svg>')
    return "\n".join(parts) + "\n"


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--ours", nargs="*", choices=OURS, default=OURS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="seeds that run at once, in processes")
    parser.add_argument("--first-seed", type=int, default=1000, help="seeds nothing was chosen by")
    parser.add_argument(
        "--peers", nargs="+", default=[], help="LIBRARY=PYTHON, for each library to run"
    )
    parser.add_argument("--who", nargs="*", default=PEERS, help="which peers")
    parser.add_argument(
        "--peer-epsilon", nargs="+", type=float, default=[1.0], help="where peers run"
    )
    parser.add_argument("--peer-seeds", type=int, default=1)
    parser.add_argument(
        "--limit", type=float, default=600.0, help="processor seconds a run of a peer may take"
    )
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args(arguments)
    options.pythons = dict(text.split("=", 1) for text in options.peers)
    keep(measure(options), None if options.no_save else machine.RESULTS)


def keep(lines, folder: Path | None) -> None:
    """Writes the lines, with those of other tables, epsilons and mechanisms already there, and the
    plot."""
    if folder is None or not lines:
        return
    path = folder / "tables.json"
    before = json.loads(path.read_text()) if path.is_file() else {}
    held = before.get("lines", [])
    here = machine.describe()
    lines = [line | {"load_average": here["load_average"]} for line in lines]
    fresh = {_key(line) for line in lines}
    order = {name: i for i, name in enumerate([*TABLES, *OURS, *PEERS])}
    lines += [line for line in held if _key(line) not in fresh]
    lines.sort(key=lambda line: (order[line["table"]], line["epsilon"], order[line["who"]]))
    absent = before.get("not_installed", {})  # by hand: which peers do not install, and why
    kept = {
        "machine": here,
        "delta": DELTA,
        "unseen": UNSEEN,
        "not_installed": absent,
        "lines": lines,
    }
    path.write_text(json.dumps(kept, indent=1) + "\n")
    if any(line["epsilon"] == 1.0 for line in lines):
        (folder / "tables.svg").write_text(svg(lines))


def _key(line) -> tuple:
    return line["table"], line["epsilon"], line["who"]


if __name__ == "__main__":
    main(sys.argv[1:])
