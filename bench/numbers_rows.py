"""What numbers asked for before a run take from its rows: no more than their share of mu^2.

    python -m bench.numbers_rows [--runs 8] [--epsilon 1] [--share 0.2] [--users 2400]

Three kinds of run on the same people: without numbers; with three numbers that have the share of mu^2;
and without numbers, by the epsilon that mu^2 less the share gives. Printed for single columns, pairs and
triples: the mean total variation between the table and the synthetic rows, with its standard error,
and the difference of the last two kinds. Runs of one seed share no noise. People are those of
`bench.numbers_asked` (log-normal amounts), and those of the file `randhie` (statsmodels).
"""

from __future__ import annotations

import argparse
from itertools import combinations

import numpy as np
import pyarrow as pa

import fastdp
from fastdp.privacy.gdp import epsilon_of, mu_from

from . import numbers_asked
from .numbers_asked import MONTHS

NUMBERS = ("sum(amount)", "sum(amount) by month", "share of users where rows > 1")


def table_of(people: numbers_asked.People) -> pa.Table:
    columns = {"who": people.user, "amount": people.cents / 100}
    columns["month"] = np.char.mod("%02d", people.month)
    columns["country"] = np.char.mod("c%02d", people.country)
    return pa.table(columns)


EDGES = [0, 10, 20, 40, 70, 100, 150, 250, 400, 700, 1000, 2000, 5000, 10_000]
SIZES = (len(EDGES), MONTHS + 1, 41)
SCHEMA = fastdp.Schema.from_dict(
    {
        "user": {"column": "who", "max_rows": 12},
        "columns": {
            "amount": {"kind": "numeric", "edges": EDGES, "digits": 2, "min": 0},
            "month": {"kind": "string", "values": [f"{m:02}" for m in range(MONTHS)]},
            "country": {"kind": "string", "values": [f"c{i:02}" for i in range(40)]},
        },
    }
)


def codes_of(table: pa.Table) -> list[np.ndarray]:
    """Amounts in the bins of the schema, months and countries; the last code of these is that of nulls."""
    out = [np.searchsorted(EDGES, table["amount"].fill_null(0).to_numpy(), "right") - 1]
    for name, size in zip(("month", "country"), SIZES[1:]):
        texts = table[name].cast(pa.string()).to_pylist()
        out.append(np.array([size - 1 if t is None else int(t.lstrip("c")) for t in texts]))
    return out


def distances(true: pa.Table, made: pa.Table) -> list[float]:
    """Mean total variation of single columns, pairs and the triple."""
    out = []
    for order in (1, 2, 3):
        found = []
        for places in combinations(range(3), order):
            shares = []
            for codes in (codes_of(true), codes_of(made)):
                shape = [SIZES[i] for i in places]
                flat = np.ravel_multi_index([codes[i] for i in places], shape)
                shares.append(np.bincount(flat, minlength=int(np.prod(shape))) / len(flat))
            found.append(float(np.abs(shares[0] - shares[1]).sum()) / 2)
        out.append(float(np.mean(found)))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--users", type=int, default=2400)
    options = parser.parse_args()
    delta = numbers_asked.DELTA
    less = epsilon_of(mu_from(options.epsilon, delta) * (1 - options.share) ** 0.5, delta)
    asked = {"list": list(NUMBERS), "share": options.share}
    kinds = {
        "without numbers": (options.epsilon, None),
        "with numbers": (options.epsilon, asked),
        "without, less mu^2": (less, None),
    }
    drawn = numbers_asked.drawn("log-normal 1", options.users, np.random.default_rng(6))
    for name, people in {
        "log-normal 1": drawn,
        "randhie": numbers_asked.from_file("randhie"),
    }.items():
        if people is None:
            continue
        table = table_of(people)
        found: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
        for seed in range(options.runs):
            for kind, (epsilon, numbers) in kinds.items():
                run = fastdp.synthesize(
                    table,
                    "cliquetree",
                    epsilon,
                    delta,
                    schema=SCHEMA,
                    numbers=numbers,
                    seed=seed,
                    sample_seed=seed,
                    threads=1,
                    progress=False,
                )
                found[kind].append(distances(table, run.data))
        measured = {kind: np.array(rows) for kind, rows in found.items()}
        for kind, rows in measured.items():
            print(f"{name:13} {kind:19} {_shown(rows)}", flush=True)
        apart = measured["with numbers"] - measured["without, less mu^2"]
        print(f"{name:13} {'difference':19} {_shown(apart)}", flush=True)


def _shown(rows: np.ndarray) -> str:
    error = rows.std(axis=0, ddof=1) / len(rows) ** 0.5
    pairs = zip(("single", "pairs", "triple"), rows.mean(axis=0), error)
    return ", ".join(f"{name} {mean:+.4f} ± {e:.4f}" for name, mean, e in pairs)


if __name__ == "__main__":
    main()
