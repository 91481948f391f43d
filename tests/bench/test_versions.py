"""Two versions side by side: a change that makes errors worse is shown with its size and sign, and each
version runs its own package."""

import json
import math

import pytest

from bench import versions


def record(which, table, pairs, *, seconds=1.0, **more):
    about = {"suite": "mst", "table": table, "epsilon": 1.0, "seed": 1, "without": which}
    return {**about, "errors": {"pairs": pairs}, "seconds": seconds, **more}


def test_an_error_that_grew_is_shown_as_more():
    """Ten per cent more on both tables, at half the time. Runs of another mechanism are left out."""
    records = [
        record("old", "a", 0.2, seconds=2.0),
        record(versions.NOW, "a", 0.22),
        record("old", "b", 0.05, seconds=2.0),
        record(versions.NOW, "b", 0.055),
        record(versions.NOW, "b", 9.0, suite="aim"),
    ]
    one = versions.line("mst", "old", records)
    effect = one["effects"]["pairs"]
    assert one["cells"] == 2 and math.isclose(one["processor"], 0.5)
    assert math.isclose(effect["mean"], math.log(1.1), rel_tol=0.01) and effect["error"] < 0.01


@pytest.mark.slow
def test_each_version_runs_the_package_of_its_folder(tmp_path):
    """A folder whose package is broken fails; the installed one would not."""
    (tmp_path / "fastdp").mkdir()
    (tmp_path / "fastdp" / "__init__.py").write_text("raise ImportError('planted')\n")
    broken = versions.Version(tmp_path)
    with pytest.raises((json.JSONDecodeError, BrokenPipeError)):
        broken.rows({})
    broken.process.wait()
