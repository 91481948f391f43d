"""NIST's report (SDNist) on synthetic people of the Diverse Communities Data Excerpts,
Massachusetts 2019.

SDNist pins old packages (numpy 1.24, pyarrow 11; Python 3.10), so it runs in an environment of its
own:

    python3.10 -m venv sdnist && sdnist/bin/pip install sdnist python examples/sdnist_report.py
    --data excerpts/massachusetts --sdnist sdnist/bin/python --out nist

`--data` holds ma2019.csv, its parameters ma2019.json (or schema_ma2019.json) and, there or one
folder above, data_dictionary.json, as SDNist publishes them. Nothing is downloaded. The report is
nist/report/report.html; it compares with the truth and is not private.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import fastdp

NULL = "N"
LEFT_OUT = ("DENSITY",)
"""Columns that follow from others (the density of the PUMA): SDNist scores the columns that there
are."""
EDGES = {
    "AGEP": [*range(0, 95, 5), 95],
    "PINCP": [
        -4600,
        0,
        1,
        *range(5_000, 50_000, 5_000),
        *range(50_000, 200_001, 25_000),
        400_000,
        1_341_001,
    ],
    "POVPIP": [*range(0, 501, 20), 501, 502],
    "PWGTP": [2, 25, 50, 75, 100, 150, 200, 300, 662],
    "WGTP": [0, 1, 25, 50, 75, 100, 150, 200, 300, 662],
}
"""Bins of the numbers, between the bounds that the excerpts publish."""
REPORT = """
import sys
from pathlib import Path
from sdnist.load import TestDatasetName
from sdnist.report.__main__ import run

rows, out, root = map(Path, sys.argv[1:])
run(rows, out, TestDatasetName.ma2019, root, download=False, show_report=False)
"""


def schema(parameters: dict[str, Any]) -> fastdp.Schema:
    """The excerpts' published values and bounds as a schema; their N is a null."""
    columns: dict[str, Any] = {}
    for name, about in parameters["schema"].items():
        null = "code" if about.get("has_null") else "drop"
        if name in EDGES:
            columns[name] = {
                "kind": "numeric",
                "dtype": "int64",
                "edges": EDGES[name],
                "null": null,
            }
        elif name not in LEFT_OUT:
            values = [str(value) for value in about["values"] if value != NULL]
            columns[name] = {"kind": "string", "values": values, "null": null}
    origin = "Parameters of the NIST Diverse Communities Data Excerpts, Massachusetts 2019"
    return fastdp.Schema.from_dict(
        {
            "name": "ma2019",
            "provenance": origin,
            "columns": columns,
            "dialect": {"null": ["", NULL]},
        }
    )


def data_root(data: Path, parameters: Path, folder: Path) -> Path:
    """The folders that SDNist reads, made of the given files. Its own settings suffice, so
    config.json is empty; mappings.json names each area by its code."""
    root = folder / "root"
    (root / "massachusetts").mkdir(parents=True)
    shutil.copy(data / "ma2019.csv", root / "massachusetts")
    shutil.copy(parameters, root / "massachusetts" / "ma2019.json")
    dictionary = next(
        f
        for f in (data / "data_dictionary.json", data.parent / "data_dictionary.json")
        if f.exists()
    )
    shutil.copy(dictionary, root)
    areas = json.loads(parameters.read_text("utf-8"))["schema"]["PUMA"]["values"]
    (root / "config.json").write_text("{}")
    (root / "mappings.json").write_text(
        json.dumps({"PUMA": {a: {"name": a, "link": ""} for a in areas}})
    )
    return root


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--sdnist", required=True, help="the Python of the environment that has sdnist"
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder that does not exist")
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    options.out.mkdir()
    out = options.out.resolve()
    names = ("ma2019.json", "schema_ma2019.json")
    parameters = next(f for f in (options.data / name for name in names) if f.exists())
    asked = schema(json.loads(parameters.read_text("utf-8")))
    run = fastdp.synthesize(
        options.data / "ma2019.csv",
        schema=asked,
        epsilon=options.epsilon,
        delta=1e-6,
        out=out / "run",
        ignore_empty_columns=True,  # nearly everybody is N in DVET, which would stop the run
    )
    rows = out / "ma2019.synthetic.csv"
    run.to_polars().write_csv(rows, null_value=NULL)
    (out / "report").mkdir()
    root = data_root(options.data, parameters, out)
    subprocess.run([options.sdnist, "-c", REPORT, rows, out / "report", root], cwd=out, check=True)


if __name__ == "__main__":
    main()
