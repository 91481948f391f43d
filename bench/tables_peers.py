"""One run of a peer, for bench.tables: coded columns in, coded columns and seconds out. Needs no
fastdp.

python tables_peers.py "dpmm MST" IN.npz OUT.npz EPSILON DELTA SEED

Codes and their numbers are public, as in fastdp, so no peer spends budget on finding them. Seconds,
by the clock and of the processor, are from a table in memory to synthetic rows in memory; imports
are outside. mbi 2.0's package has estimators but no mechanisms: tables_mbi.py drives it; dpmm's and
smartnoise's are the published programs over Private-PGM, OpenDP's are its own over mbi 1.1.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np
import pandas as pd


def now():
    """Seconds of the clock, and of the processor by this process and its children that ended."""
    times = os.times()
    return (
        time.perf_counter(),
        times.user + times.system + times.children_user + times.children_system,
    )


def dpmm(kind, frame, sizes, epsilon, delta, seed):
    from dpmm.pipelines import aim, mst

    pipeline = {"MST": mst.MSTPipeline, "AIM": aim.AIMPipeline}[kind]
    start = now()
    model = pipeline(epsilon=epsilon, delta=delta, disable_processing=True, n_jobs=2)
    model.fit(frame, domain=dict(sizes), random_state=seed)
    return model.generate(n_records=len(frame), random_state=seed), start


def smartnoise(kind, frame, sizes, epsilon, delta, seed):
    from snsynth import Synthesizer

    np.random.seed(seed)  # noqa: NPY002  (what the library draws from)
    start = now()
    model = Synthesizer.create(kind.lower(), epsilon=epsilon, delta=delta)
    model.fit(frame, categorical_columns=list(frame.columns), preprocessor_eps=0.0)
    return model.sample(len(frame)), start


def opendp(kind, frame, sizes, epsilon, delta, seed):
    """OpenDP takes no seed: its noise is fresh in every run. Its budget is zCDP, as that of
    `mbi`."""
    import opendp.prelude as dp
    import polars as pl
    import tables_mbi

    dp.enable_features("contrib")
    start = now()
    rho = tables_mbi.rho_of(epsilon, delta)
    context = dp.Context.compositor(
        data=pl.from_pandas(frame).lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=1,
    )
    keys = {name: list(range(n)) for name, n in sizes.items()}
    query = (
        context.query()
        .select(*sizes)
        .contingency_table(keys=keys, algorithm=getattr(dp.mbi, kind)())
    )
    rows = query.release().synthesize(len(frame)).to_pandas()
    return (
        rows.ffill().bfill(),
        start,
    )  # a few rows come out without a value: they get a neighbour's


def mbi(kind, frame, sizes, epsilon, delta, seed):
    import jax

    jax.config.update("jax_enable_x64", True)
    import tables_mbi

    start = now()
    rows = {"MST": tables_mbi.mst, "AIM": tables_mbi.aim}[kind](frame, sizes, epsilon, delta, seed)
    return pd.DataFrame(rows), start


def main(name, source, made, epsilon, delta, seed):
    library, kind = name.split()
    with np.load(source) as arrays:
        sizes = json.loads(str(arrays["sizes"]))
        frame = pd.DataFrame({a: arrays[f"x_{a}"] for a in sizes})
    peer = {"dpmm": dpmm, "smartnoise": smartnoise, "mbi": mbi, "opendp": opendp}[library]
    rows, start = peer(kind, frame, sizes, float(epsilon), float(delta), int(seed))
    seconds, used = (after - before for after, before in zip(now(), start))
    columns = {
        f"x_{a}": np.clip(rows[a].to_numpy().astype(np.int64), 0, n - 1) for a, n in sizes.items()
    }
    np.savez(made, seconds=seconds, used=used, **columns)


if __name__ == "__main__":
    main(*sys.argv[1:])
