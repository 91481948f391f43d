"""One run of a peer, for bench.scoreboard: coded columns in, coded columns and seconds out. Needs no
fastdp.

python peer_program.py "dpmm MST" IN.npz OUT.npz EPSILON DELTA SEED

IN.npz has `sizes` (JSON: codes of each column) and the codes of column A as `x_A`; OUT.npz gets the
synthetic codes likewise, `seconds`, `used` and `held_mb`. Codes and their numbers are public, as in
fastdp, so no peer spends budget on finding them. Seconds, by the clock and of the processor, are
from a table in memory to synthetic rows in memory; imports are outside. mbi 2.0's package has
estimators but no mechanisms: mbi_mechanisms.py drives it; dpmm's and smartnoise's are the published
programs over Private-PGM, OpenDP's are its own over mbi 1.1.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import NamedTuple

import numpy as np
import pandas as pd

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # mechanisms are compared on one kind of processor


OPENDP_TRIES = 12


class Stamp(NamedTuple):
    """Seconds of the clock, seconds of the processor by this process and its children that ended,
    and resident memory in MB."""

    clock: float
    processor: float
    held_mb: float


def now() -> Stamp:
    times = os.times()
    used = times.user + times.system + times.children_user + times.children_system
    return Stamp(time.perf_counter(), used, _held_mb())


def _held_mb() -> float:
    try:
        with open("/proc/self/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        return int(lines["VmRSS"].split()[0]) / 1024
    except (OSError, KeyError):
        return 0.0


def dpmm(kind, frame, sizes, epsilon, delta, seed):
    """kind: "MST", "AIM", or "MST-500", with so many iterations in place of its 5,000."""
    from dpmm.pipelines import aim, mst

    kind, _, iterations = kind.partition("-")
    pipeline = {"MST": mst.MSTPipeline, "AIM": aim.AIMPipeline}[kind]
    given = {"n_iters": int(iterations)} if iterations else None
    start = now()
    model = pipeline(
        epsilon=epsilon, delta=delta, disable_processing=True, n_jobs=1, gen_kwargs=given
    )
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
    """OpenDP takes no seed: its noise is fresh in every run. Its budget is zCDP, as that of `mbi`.

    Version 0.16 stops on most budgets because the parts into which it divides one sum to more than
    it by rounding ("insufficient budget"). A slightly smaller one is then tried.
    """
    import mbi_mechanisms
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    start = now()
    rho = mbi_mechanisms.rho_of(epsilon, delta)
    keys = {name: list(range(n)) for name, n in sizes.items()}
    for less in range(OPENDP_TRIES):
        context = dp.Context.compositor(
            data=pl.from_pandas(frame).lazy(),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(rho=rho * (1 - 1e-6 * less)),
            split_evenly_over=1,
        )
        algorithm = getattr(dp.mbi, kind)()
        query = context.query().select(*sizes).contingency_table(keys=keys, algorithm=algorithm)
        try:
            table = query.release()
            break
        except dp.OpenDPException as error:
            if "insufficient budget" not in str(error) or less == OPENDP_TRIES - 1:
                raise
    rows = table.synthesize(len(frame)).to_pandas()
    filled = rows.ffill().bfill()  # a few rows come out without a value: they get a neighbour's
    return filled, start


def mbi(kind, frame, sizes, epsilon, delta, seed):
    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi_mechanisms

    start = now()
    rows = {"MST": mbi_mechanisms.mst, "AIM": mbi_mechanisms.aim}[kind](
        frame, sizes, epsilon, delta, seed
    )
    return pd.DataFrame(rows), start


def main(name, source, made, epsilon, delta, seed):
    library, kind = name.split()
    with np.load(source) as arrays:
        sizes = json.loads(str(arrays["sizes"]))
        frame = pd.DataFrame({a: arrays[f"x_{a}"] for a in sizes})
    peer = {"dpmm": dpmm, "smartnoise": smartnoise, "mbi": mbi, "opendp": opendp}[library]
    rows, start = peer(kind, frame, sizes, float(epsilon), float(delta), int(seed))
    end = now()
    columns = {
        f"x_{a}": np.clip(rows[a].to_numpy().astype(np.int64), 0, n - 1) for a, n in sizes.items()
    }
    np.savez(
        made,
        seconds=end.clock - start.clock,
        used=end.processor - start.processor,
        held_mb=start.held_mb,
        **columns,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
