"""Do approximate intervals of means and sums of numbers in bins cover, and what do bounds cost?

    python -m bench.coverage_bins [--runs 10] [--people 20000] [--epsilon 3 10] [--no-save]

Whole runs on simulated purchases (`fastdp.simulate.purchases`), whose amounts lie anywhere inside
wide bins. Each run answers mean(amount) and sum(amount) by each other column, once with the default
basis and once with basis="bound". A line holds the share of true values inside the 95 % intervals,
and their median half-width relative to the truth, of the answers with one basis. Groups of one run
are not independent, so the binomial error is a lower bound.
"""

from __future__ import annotations

import argparse

import numpy as np
import polars as pl

import fastdp

from . import fit, machine

BY = ("country", "shop", "month", "payment")
KINDS = ("mean", "sum")


def truths(table, of: str, by: str) -> dict:
    """The true means or sums by group."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    value = pl.col("amount").mean() if of == "mean" else pl.col("amount").sum()
    return dict(frame.group_by(by).agg(value).iter_rows())


def answered(run: fastdp.Run, table, of: str, basis: str | None) -> list[tuple]:
    """(basis, whether the interval holds the truth, its relative half-width) of every group."""
    out = []
    for by in BY:
        true = truths(table, of, by)
        for row in run.answer(f"{of}(amount)", by=by, basis=basis).to_pylist():
            value = true.get(row[by])
            if value is None or row["low"] is None or row["high"] is None:
                continue
            held = row["low"] <= value <= row["high"]
            out.append((row["basis"], held, (row["high"] - row["low"]) / 2 / abs(value)))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[3.0, 10.0])
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    schema = fastdp.Schema.from_dict(fit.SCHEMA)
    lines = []
    for epsilon in options.epsilon:
        found: dict[tuple[str, str, str], list[tuple]] = {}
        for seed in range(options.runs):
            table = fastdp.simulate.purchases(options.people, seed=seed)
            run = fastdp.synthesize(
                table, schema=schema, epsilon=epsilon, delta=1e-6, seed=seed, sample_seed=seed
            )
            for of in KINDS:
                for basis in (None, "bound"):
                    for row in answered(run, table, of, basis):
                        found.setdefault((of, basis or "default", row[0]), []).append(row)
        for (of, basis, had), rows in found.items():
            cover = np.mean([held for _, held, _ in rows])
            line = {
                "number": of,
                "asked": basis,
                "basis": had,
                "epsilon": epsilon,
                "intervals": len(rows),
                "cover": float(cover),
                "error": float(1.96 * np.sqrt(0.05 * 0.95 / len(rows))),
                "half": float(np.median([half for _, _, half in rows])),
            }
            lines.append(line)
            print(
                f"{of}(amount) by group, epsilon {epsilon:g}, asked {basis}, got {had}: covers "
                f"{100 * cover:.1f} ± {100 * line['error']:.1f} of {len(rows)}, half-width "
                f"{line['half']:.3f}",
                flush=True,
            )
    if not options.no_save:
        machine.keep("coverage_bins", {"people": options.people, "lines": lines})


if __name__ == "__main__":
    main()
