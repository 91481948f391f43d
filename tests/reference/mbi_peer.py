"""Run as a script by `tests/estimate/test_against_mbi.py`: mbi's marginals and fits of the cases in a
file, in float64.

It is a process of its own because JAX keeps threads and a global precision. Input and output are .npz files;
a case i has `domain_i` and `cliques_i` (JSON), and per clique j either `theta_i_j` (potentials; marginals are
asked) or `y_i_j` and `sigma_i_j` (a measurement; the fitted loss is asked).
"""

import json
import sys

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_enable_compilation_cache", False)

import mbi  # noqa: E402
from mbi import estimation, marginal_oracles  # noqa: E402


def marginals(domain, cliques, file, i, total):
    tables = {c: mbi.Factor(domain.project(c), file[f"theta_{i}_{j}"]) for j, c in enumerate(cliques)}
    oracle = jax.jit(marginal_oracles.default_oracle(cliques, domain))
    tables_of = oracle(mbi.CliqueVector(domain, cliques, tables), total)
    return {f"m_{i}_{j}": np.asarray(tables_of.project(c).values) for j, c in enumerate(cliques)}


def fitted(domain, cliques, file, i, total):
    seen = [
        mbi.LinearMeasurement(file[f"y_{i}_{j}"].ravel(), c, stddev=float(file[f"sigma_{i}_{j}"]))
        for j, c in enumerate(cliques)
    ]
    model = estimation.MirrorDescent().estimate(domain, seen, known_total=total, iters=5000)
    loss = sum(
        0.5
        * float(
            (((np.asarray(model.project(m.clique).datavector()) - m.noisy_measurement) / m.stddev) ** 2).sum()
        )
        for m in seen
    )
    return {f"loss_{i}": np.array(loss)}


def main(source, target):
    out = {}
    with np.load(source, allow_pickle=False) as file:
        for i in range(int(file["cases"])):
            sizes = json.loads(str(file[f"domain_{i}"]))
            domain = mbi.Domain(tuple(sizes), tuple(sizes.values()))
            cliques = [tuple(c) for c in json.loads(str(file[f"cliques_{i}"]))]
            work = marginals if f"theta_{i}_0" in file else fitted
            out |= work(domain, cliques, file, i, float(file[f"total_{i}"]))
    np.savez(target, **out)


if __name__ == "__main__":
    main(*sys.argv[1:])
