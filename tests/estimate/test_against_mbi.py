"""Equal to mbi 2.0 where it is installed: marginals of large random models, and the loss of converged
fits."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fastdp.domain import Domain
from fastdp.estimate import fit
from fastdp.measurement import Measurement
from fastdp.model import layout

from ..model.test_infer import run

PEER = Path(__file__).parents[1] / "reference" / "mbi_peer.py"
pytestmark = pytest.mark.skipif(importlib.util.find_spec("mbi") is None, reason="mbi is not installed")

# tree, star of triples, cycle, two components: (attribute sizes, cliques)
GRAPHS = {
    "tree": ({f"c{i}": 15 + 3 * i for i in range(12)}, [(f"c{i // 2}", f"c{i}") for i in range(1, 12)]),
    "star": (
        {"p": 31, "s": 21, "f": 11, "t": 13, "d": 40, "q": 17},
        [("p", "s", "f", "t"), ("d", "p", "s", "f"), ("t", "p", "s", "q")],
    ),
    "cycle": (
        {"a": 20, "b": 25, "c": 30, "d": 15, "e": 10},
        [tuple(p) for p in ("ab", "bc", "cd", "de", "ae")],
    ),
    "apart": ({"a": 50, "b": 60, "c": 300, "d": 200, "e": 7}, [("a", "b"), ("c", "d"), ("e",)]),
}


def models():
    """(domain, potentials, total) of every graph at a gentle and a steep scale."""
    for seed, (sizes, cliques) in enumerate(GRAPHS.values()):
        for scale in (1.0, 30.0):
            rng = np.random.default_rng(seed)
            domain = Domain(sizes)
            yield domain, {c: rng.normal(size=domain.shape(c)) * scale for c in cliques}, 1e7


def problems():
    """(domain, measurements, total): noisy pairs and single attributes of a skewed random table."""
    sizes = {"a": 3, "b": 4, "c": 5, "d": 3}
    for seed, pairs in enumerate((("ab", "bc", "cd"), ("ab", "bc", "cd", "ad"), ("abc", "cd"))):
        rng = np.random.default_rng(seed)
        domain = Domain(sizes)
        joint = rng.gamma(0.5, size=domain.shape(domain))
        joint *= 5000 / joint.sum()
        asked = []
        for clique in [*map(tuple, pairs), ("a",), ("d",)]:
            drop = tuple(i for i, a in enumerate(domain) if a not in clique)
            x = joint.sum(axis=drop)
            sigma = float(rng.uniform(20, 60))
            asked.append(Measurement(clique, (x + sigma * rng.normal(size=x.shape)).ravel(), sigma))
        yield domain, asked, 5000.0


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """What mbi says to all cases, in one process."""
    arrays, i = {}, 0
    for domain, potentials, total in models():
        arrays |= {f"theta_{i}_{j}": t for j, t in enumerate(potentials.values())}
        arrays |= {f"domain_{i}": json.dumps(dict(domain)), f"cliques_{i}": json.dumps(list(potentials))}
        arrays[f"total_{i}"] = total
        i += 1
    for domain, asked, total in problems():
        arrays |= {f"y_{i}_{j}": m.values for j, m in enumerate(asked)}
        arrays |= {f"sigma_{i}_{j}": m.sigma for j, m in enumerate(asked)}
        arrays |= {
            f"domain_{i}": json.dumps(dict(domain)),
            f"cliques_{i}": json.dumps([m.clique for m in asked]),
        }
        arrays[f"total_{i}"] = total
        i += 1
    folder = tmp_path_factory.mktemp("mbi")
    np.savez(folder / "cases.npz", cases=i, **arrays)
    command = [
        sys.executable,
        "-W",
        "ignore",
        str(PEER),
        str(folder / "cases.npz"),
        str(folder / "answers.npz"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(folder / "answers.npz", allow_pickle=False) as file:
        return dict(file)


def test_marginals_of_large_models(theirs):
    for i, (domain, potentials, total) in enumerate(models()):
        plan, _tables, m, _log_z = run(domain, potentials, total, 2)
        for j, c in enumerate(potentials):
            place = plan.places[frozenset(c)]
            cells = layout.permute_cells(domain, c, None, place.axes)
            got = m[place.at : place.at + place.size][cells]
            want = theirs[f"m_{i}_{j}"].ravel()
            assert np.abs(got - want).max() <= 1e-6 * want.max()
            assert np.allclose(got, want, rtol=1e-6, atol=1e-6)


def test_converged_loss_is_not_above(theirs):
    first = sum(1 for _ in models())
    for i, (domain, asked, total) in enumerate(problems(), start=first):
        model = fit(domain, asked, total=total, stop="tol", tol=1e-8)
        other = float(theirs[f"loss_{i}"])
        assert model.loss <= other * (1 + 1e-4)
        assert other <= model.loss * 1.05  # and mbi was really near its optimum: the same problem was solved
