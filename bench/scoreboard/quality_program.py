"""SDMetrics' QualityReport of two tables of codes, for bench.scoreboard. Needs no fastdp.

python quality_program.py TABLES.npz

TABLES.npz has `ordered` (JSON: the columns whose codes have an order) and the codes of column A as
`t_A` (true) and `s_A` (synthetic). The overall score, 0 to 1, goes to standard output.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np


def quality(true, synthetic, ordered):
    import pandas as pd
    from sdmetrics.reports.single_table import QualityReport

    about = {a: {"sdtype": "numerical" if a in ordered else "categorical"} for a in true}
    frames = [pd.DataFrame({a: np.asarray(codes[a]) for a in true}) for codes in (true, synthetic)]
    report = QualityReport()
    report.generate(*frames, {"columns": about}, verbose=False)
    return float(report.get_score())


def main(path):
    warnings.filterwarnings("ignore")
    with np.load(path) as arrays:
        ordered = json.loads(str(arrays["ordered"]))
        names = [name[2:] for name in arrays if name.startswith("t_")]
        true, synthetic = ({a: arrays[f"{kind}_{a}"] for a in names} for kind in "ts")
    print(quality(true, synthetic, ordered))


if __name__ == "__main__":
    main(*sys.argv[1:])
