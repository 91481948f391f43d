"""One run of a peer, for bench.tables: coded columns in, coded columns and seconds out. Needs no fastdp.

python tables_peers.py "dpmm MST" IN.npz OUT.npz EPSILON DELTA SEED

Codes and their numbers are public, as in fastdp, so no peer spends budget on finding them. Seconds are from a
table in memory to synthetic rows in memory; imports are outside. mbi 2.0's package has estimators but no
mechanisms: tables_mbi.py drives it; dpmm's and smartnoise's are the published programs over Private-PGM.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import pandas as pd


def dpmm(kind, frame, sizes, epsilon, delta, seed):
    from dpmm.pipelines import aim, mst

    pipeline = {"MST": mst.MSTPipeline, "AIM": aim.AIMPipeline}[kind]
    start = time.perf_counter()
    model = pipeline(epsilon=epsilon, delta=delta, disable_processing=True, n_jobs=2)
    model.fit(frame, domain=dict(sizes), random_state=seed)
    return model.generate(n_records=len(frame), random_state=seed), start


def smartnoise(kind, frame, sizes, epsilon, delta, seed):
    from snsynth import Synthesizer

    np.random.seed(seed)  # noqa: NPY002  (what the library draws from)
    start = time.perf_counter()
    model = Synthesizer.create(kind.lower(), epsilon=epsilon, delta=delta)
    model.fit(frame, categorical_columns=list(frame.columns), preprocessor_eps=0.0)
    return model.sample(len(frame)), start


def mbi(kind, frame, sizes, epsilon, delta, seed):
    import jax

    jax.config.update("jax_enable_x64", True)
    import tables_mbi

    start = time.perf_counter()
    rows = {"MST": tables_mbi.mst, "AIM": tables_mbi.aim}[kind](frame, sizes, epsilon, delta, seed)
    return pd.DataFrame(rows), start


def main(name, source, made, epsilon, delta, seed):
    library, kind = name.split()
    with np.load(source) as arrays:
        sizes = json.loads(str(arrays["sizes"]))
        frame = pd.DataFrame({a: arrays[f"x_{a}"] for a in sizes})
    peer = {"dpmm": dpmm, "smartnoise": smartnoise, "mbi": mbi}[library]
    rows, start = peer(kind, frame, sizes, float(epsilon), float(delta), int(seed))
    seconds = time.perf_counter() - start
    used = time.process_time()
    columns = {f"x_{a}": np.clip(rows[a].to_numpy().astype(np.int64), 0, n - 1) for a, n in sizes.items()}
    np.savez(made, seconds=seconds, used=used, **columns)


if __name__ == "__main__":
    main(*sys.argv[1:])
