"""Every threaded kernel works in a forked child after the parent has used it (an OpenMP pool would hang
there)."""

import os
import signal

import numpy as np
import pytest

import fastdp
from fastdp.engines.local import local
from fastdp.privacy import noise
from fastdp.tables.table import Table

DOMAIN = {"a": 40, "b": 50, "c": 60}


def work():
    """Counts, draws noise, fits and samples with several threads; returns what does not depend on chance."""
    rng = np.random.default_rng(0)
    n = 300_000
    codes = {name: rng.integers(0, size, n).astype(np.uint8) for name, size in DOMAIN.items()}
    table = Table.from_codes(fastdp.Schema.from_domain(DOMAIN), codes)
    counts = local(table, threads=3).marginals([("a", "b", "c")], None)[("a", "b", "c")]
    noise.gaussian(100.0, 100_000, threads=3)
    seen = [fastdp.Measurement(("a", "b", "c"), counts.astype(float), 5.0)]
    model = fastdp.fit(DOMAIN, seen, stop="iters", iters=4, threads=3)
    rows = model.sample(200_000, seed=1, shard_rows=50_000, threads=3)
    return int(counts.sum()), model.loss, int(rows["a"].astype(int).sum())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kernels_work_after_fork():
    before = work()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os.write(write, repr(work()).encode())
        os._exit(0)
    os.close(write)
    _, status = os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        assert os.waitstatus_to_exitcode(status) == 0, "the child hung or crashed"
        assert pipe.read() == repr(before)
