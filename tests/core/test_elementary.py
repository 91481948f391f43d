"""exp and log of the kernels are as accurate as their texts say, all over their ranges: every
coefficient of their polynomials counts."""

import ctypes
import shutil
import subprocess
from ctypes import c_int64, c_void_p
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("cc") or shutil.which("gcc")
PROGRAM = """
#include "infer_exp.h"
void exps(int64_t n, const double *x, double *y) { for (int64_t i = 0; i < n; i++) y[i] = fdp_exp(x[i]); }
void expfs(int64_t n, const float *x, float *y) { for (int64_t i = 0; i < n; i++) y[i] = fdp_expf(x[i]); }
void logs(int64_t n, const double *x, double *y) { for (int64_t i = 0; i < n; i++) y[i] = fdp_log(x[i]); }
"""

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


@pytest.fixture(scope="module")
def of(tmp_path_factory):
    """A function of the header by name, over arrays."""
    folder = tmp_path_factory.mktemp("elementary")
    (folder / "all.c").write_text(PROGRAM)
    library = folder / "all.so"
    flags = ["-shared", "-fPIC", "-O1", "-std=gnu11", f"-I{ROOT / 'csrc'}"]
    subprocess.run([COMPILER, *flags, "-o", library, folder / "all.c"], check=True)
    core = ctypes.CDLL(str(library))

    def call(name, x):
        y = np.empty_like(x)
        getattr(core, name)(c_int64(x.size), x.ctypes.data_as(c_void_p), y.ctypes.data_as(c_void_p))
        return y

    return call


def off(got, wanted):
    """The largest relative error."""
    return float(np.max(np.abs(got / wanted - 1)))


def test_exp_errs_in_the_last_places_alone_and_is_0_below_its_range(of):
    rng = np.random.default_rng(1)
    near = np.concatenate(
        [rng.uniform(-0.35, 0.35, 40_000), np.log(2) * (np.arange(-60, 1) + 0.4999)]
    )
    for x in (near, rng.uniform(-40, 0, 40_000), rng.uniform(-707.9, 0, 40_000)):
        assert off(of("exps", x), np.exp(x.astype(np.longdouble)).astype(np.float64)) < 9e-16
    x = np.array([-np.inf, -1e300, -709.0, np.nextafter(-708.0, -np.inf), -708.0, 0.0])
    got = of("exps", x)
    assert (
        (got[:4] == 0).all() and got[4] == pytest.approx(np.exp(-708.0), rel=2e-15) and got[5] == 1
    )


def test_exp_in_single_precision(of):
    rng = np.random.default_rng(2)
    for low in (-0.35, -20.0, -86.9):
        x = rng.uniform(low, 0.35 if low > -1 else 0.0, 60_000).astype(np.float32)
        assert off(of("expfs", x).astype(np.float64), np.exp(x.astype(np.float64))) < 4e-7
    x = np.array(
        [-np.inf, -88.0, np.nextafter(np.float32(-87), np.float32(-100)), -87.0, 0.0], np.float32
    )
    got = of("expfs", x)
    assert (got[:3] == 0).all() and got[3] > 0 and got[4] == 1
    # its mean error over a period shows coefficients that one number's rounding hides
    x = np.linspace(-0.34, 0.34, 20_007).astype(np.float32)
    error = of("expfs", x).astype(np.float64) / np.exp(x.astype(np.float64)) - 1
    assert np.abs(error.reshape(9, -1).mean(axis=1)).max() < 3e-8


def test_log_errs_in_the_last_places_alone(of):
    rng = np.random.default_rng(3)
    root = np.sqrt(2.0)
    for low, high in ((1 / root, root), (0.99, 1.01), (1e-300, 1e300), (2.3e-308, 1.7e308)):
        x = np.exp(rng.uniform(np.log(low), np.log(high), 40_000))
        x = x[x != 1]
        assert off(of("logs", x), np.log(x.astype(np.longdouble)).astype(np.float64)) < 2e-15
    assert of("logs", np.array([1.0]))[0] == 0
