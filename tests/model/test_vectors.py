"""Vector kernels of the descent against numpy, at lengths on both sides of their chunks."""

import numpy as np
import pytest

from fastdp._core import infer
from fastdp._core.team import Team

CHUNK = 16_384
LENGTHS = [0, 1, 7, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5, 8 * CHUNK + 3]


@pytest.fixture(params=LENGTHS, ids=str)
def vectors(request):
    rng = np.random.default_rng(request.param)
    return [rng.normal(size=request.param) for _ in range(6)]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_step_is_against_the_mixed_gradient(vectors, threads):
    dx, dz, w, out, *_ = vectors
    infer.step(0.3, dx, -1.7, dz, w, out, Team(threads))
    assert np.allclose(out, -w * (0.3 * dx - 1.7 * dz), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("threads", [1, 3])
def test_arriving_measures_distance_and_curvature(vectors, threads):
    m, t, dz, w, delta, out = vectors
    distance, curvature = infer.arrive(m, t, dz, w, delta, out, Team(threads))
    gap = m - t - dz
    assert np.allclose(out, m - t, rtol=0, atol=0)
    size = 1e-12 * max(1, len(m))
    assert abs(distance - 0.5 * float(delta @ gap)) < size
    assert abs(curvature - 0.5 * float(w @ gap**2)) < size


@pytest.mark.parametrize("threads", [1, 3])
def test_a_blend_and_its_loss(vectors, threads):
    new, w, d, *_ = vectors
    expected = 0.2 * new + 0.8 * d
    loss = infer.blend(0.2, new, w, d, Team(threads))
    assert np.allclose(d, expected, rtol=1e-13, atol=1e-14)
    assert abs(loss - 0.5 * float(w @ expected**2)) < 1e-12 * max(1, len(d))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind, close", [(np.float64, 1e-14), (np.float32, 1e-6)])
def test_an_average(vectors, threads, kind, close):
    x, y = (v.astype(kind) for v in vectors[:2])
    expected = 0.2 * x.astype(float) + 0.8 * y.astype(float)
    infer.average(0.2, x, y, Team(threads))
    assert np.allclose(y, expected, rtol=0, atol=5 * close)
