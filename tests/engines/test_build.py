"""Which builds may count together: the same sources, and on the same platform the same kernels."""

from itertools import product
from pathlib import Path

import pytest

import fastdp
from fastdp.engines import build as builds
from fastdp.errors import DataError


@pytest.mark.parametrize("sources, platform, kernels", list(product([True, False], repeat=3)))
def test_what_must_be_the_same(sources, platform, kernels):
    here = dict(builds.build())
    same = {"sources": sources, "platform": platform, "kernels": kernels}
    asked = {key: value if same[key] else value + "x" for key, value in here.items()}
    if sources and (kernels or not platform):
        builds.check(asked)
    else:
        with pytest.raises(DataError, match="another build of fastdp than the driver"):
            builds.check(asked)


def test_the_digests_are_of_the_package_and_of_nothing_beside_it(tmp_path, monkeypatch):
    assert Path(fastdp.__file__).parent == builds.PACKAGE
    (tmp_path / "package" / "_core").mkdir(parents=True)
    files = {"a.py": b"1", "_core/__init__.py": b"2", "_core/k.so": b"3"}
    for name, content in files.items():
        (tmp_path / "package" / name).write_bytes(content)
    monkeypatch.setattr(builds, "PACKAGE", tmp_path / "package")
    fresh = builds.build.__wrapped__
    before = fresh()
    assert before == fresh() and before != builds.build()
    for name, changed in (("a.py", "sources"), ("_core/__init__.py", "sources"), ("_core/k.so", "kernels")):
        path = tmp_path / "package" / name
        for content in (b"9", files[name] + b"9", b""):
            path.write_bytes(content)
            assert {key for key, value in fresh().items() if value != before[key]} == {changed}
        path.rename(path.with_name("renamed" + path.suffix))
        assert {key for key, value in fresh().items() if value != before[key]} == {changed}
        path.with_name("renamed" + path.suffix).rename(path)
        path.write_bytes(files[name])
    (tmp_path / "beside.py").write_bytes(b"4")
    (tmp_path / "package" / "notes.txt").write_bytes(b"5")
    assert fresh() == before
