"""The core can be one wheel for every Python: it uses the stable ABI and no C interface of numpy."""

import sysconfig
from pathlib import Path

import numpy as np
import pytest

import fastdp
from fastdp._core import infer, tables

CORE = Path(fastdp.__file__).parent / "_core"
FREE = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def test_no_module_uses_numpys_c_interface():
    sources = [*CORE.glob("*.pyx"), *CORE.glob("*.pxd")]
    if not sources:
        pytest.skip("an installed wheel has no sources")
    for source in sources:
        assert "cimport numpy" not in source.read_text("utf-8"), source.name


@pytest.mark.skipif(FREE, reason="a Python without the global lock has no stable ABI")
def test_every_module_is_built_for_the_stable_abi():
    """Under one name only: Python would load one that an earlier build left under another."""
    built = [path.name for path in CORE.glob("*.so")]
    names = {path.stem for path in CORE.glob("*.pyi")} | {"_shared"}
    assert sorted(built) == sorted(f"{name}.abi3.so" for name in names)


@pytest.mark.parametrize(
    "wrong, said",
    [
        (np.ones(8, np.float32), "float64"),  # another type
        (np.ones(8, ">f8"), "float64"),  # another order of bytes
        (np.ones(3), "4 numbers of float64, not 3"),  # too short
        (np.ones(16)[::2], "contiguous"),
    ],
)
def test_a_buffer_that_does_not_fit_is_refused(wrong, said):
    right = np.ones(4)
    with pytest.raises(ValueError, match=said):
        infer.blend(0.5, wrong, right, right.copy(), 1)


def test_a_kernel_does_not_write_to_a_read_only_array():
    fixed = np.ones(4)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        infer.blend(0.5, np.ones(4), np.ones(4), fixed, 1)
    assert tables.farthest(fixed, 1) == 1.0  # reading is allowed
