"""Many runs in one process, one after another and at once."""

from __future__ import annotations

import gc
import hashlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

from . import world

FLAT = 0.05


def one(seed: int, noise: bool = True) -> str:
    """The digest of a run's rows and answers; with `noise` fixed by the seed, for tests only."""
    import fastdp

    schema = fastdp.Schema.from_dict(world.SCHEMA)
    run = fastdp.synthesize(
        world.rows(5_000),
        "mst",
        2.0,
        1e-6,
        schema=schema,
        clip=3,
        seed=seed if noise else None,
        threads=1,
    )
    digest = hashlib.sha256()
    for measurement in run.measurements:
        digest.update(measurement.values.tobytes())
    digest.update(repr(run.sample(500, seed=seed).to_pydict()).encode())
    return digest.hexdigest()


def memory(runs: int) -> tuple[str, list[str]]:
    """Resident memory after a fifth of the runs and after all of them."""
    early = 0
    for i in range(runs):
        one(i, noise=False)
        if i + 1 == max(1, runs // 5):
            early = resident()
    late = resident()
    text = (
        f"{runs} runs in one process: {early / 1e6:.0f} MB after a fifth, {late / 1e6:.0f} MB in"
        " the end"
    )
    return text, [text] if late > early * (1 + FLAT) else []


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096


def parallel(number: int) -> tuple[str, list[str]]:
    """Digests of seeded runs: one after another, in threads, in processes."""
    seeds = list(range(number))
    alone = [one(seed) for seed in seeds]
    with ThreadPoolExecutor(number) as pool:
        threads = list(pool.map(one, seeds))
    with ProcessPoolExecutor(number, mp_context=get_context("spawn")) as pool:
        processes = list(pool.map(one, seeds))
    problems = []
    if len(set(alone)) != number:
        problems.append("runs of different seeds are the same")
    if threads != alone:
        problems.append("runs in threads differ from those one after another")
    if processes != alone:
        problems.append("runs in processes differ from those one after another")
    return (
        f"{number} runs at once, in threads and in processes, equal to one after another",
        problems,
    )
