"""Time per noise sample: fastdp's exact samplers beside numpy's inexact ones and OpenDP, in one
run.

python -m bench.noise [--samples 1000000] [--threads 1] [--no-save]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

from fastdp.privacy import noise

from .machine import describe, keep

SCALES = (1e-3, 0.3, 1.0, 100.0, 1e6, 1e12)


def nanoseconds(draw: Callable[[int], object], n: int, repeats: int = 5) -> float:
    """Best of several, in ns a sample."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        draw(n)
        best = min(best, time.perf_counter() - start)
    return best / n * 1e9


def opendp_samplers(scale: float) -> dict[str, Callable[[int], object]]:
    """OpenDP's exact samplers on int vectors, or nothing where it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return {}
    dp.enable_features("contrib")
    vectors = dp.vector_domain(dp.atom_domain(T="i64"))
    gaussian = dp.m.make_gaussian(vectors, dp.l2_distance(T="f64"), scale=scale)
    laplace = dp.m.make_laplace(vectors, dp.l1_distance(T="i64"), scale=scale)
    return {"gaussian": lambda n: gaussian([0] * n), "laplace": lambda n: laplace([0] * n)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    n = options.samples
    rng = np.random.default_rng(0)
    print(json.dumps(describe()))
    results = []
    print(f"ns a sample, {n} samples, {options.threads} thread(s) for fastdp, best of 5\n")
    print(
        f"{'law':9} {'scale':>8} {'fastdp':>8} {'numpy':>8} {'OpenDP':>9} {'OpenDP / fastdp':>16}"
    )
    for scale in SCALES:
        peers = opendp_samplers(scale)
        for law, ours, theirs in (
            ("gaussian", noise.gaussian, rng.normal),
            ("laplace", noise.laplace, rng.laplace),
        ):
            exact = nanoseconds(lambda m, f=ours, s=scale: f(s, m, threads=options.threads), n)
            float_noise = nanoseconds(lambda m, f=theirs, s=scale: f(0.0, s, m), n)
            result = {"law": law, "scale": scale, "fastdp_ns": exact, "numpy_ns": float_noise}
            row = f"{law:9} {scale:8.0e} {exact:8.1f} {float_noise:8.1f}"
            if law in peers:
                peer = nanoseconds(peers[law], max(1000, n // 200), repeats=2)
                result |= {"opendp": version("opendp"), "opendp_ns": peer, "ratio": peer / exact}
                row += f" {peer:9.0f} {peer / exact:16.0f}"
            results.append(
                {
                    k: round(v, 3) if k.endswith("ns") or k == "ratio" else v
                    for k, v in result.items()
                }
            )
            print(row)
    if not options.no_save:
        keep("noise", {"threads": options.threads, "samples": n, "results": results})


if __name__ == "__main__":
    main()
