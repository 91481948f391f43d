"""Builds the compiled core: `fastdp/_core/NAME.pyx` over `csrc/NAME.c` and `csrc/NAME_*.c`.

Switches (environment): FASTDP_DEBUG=1 (-O0, asserts), FASTDP_SANITIZE=1 (address and undefined),
FASTDP_SERIAL=1 (no OpenMP), FASTDP_EXT=count,noise (build only these).
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("FASTDP_DEBUG") == "1"
SANITIZE = os.environ.get("FASTDP_SANITIZE") == "1"
SERIAL = os.environ.get("FASTDP_SERIAL") == "1"
ONLY = [n for n in os.environ.get("FASTDP_EXT", "").split(",") if n]


def openmp_works() -> bool:
    """Whether the compiler can build and link an OpenMP program (else the kernels are serial)."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n")
        command = [
            os.environ.get("CC", "cc"),
            "-fopenmp",
            str(source),
            "-o",
            str(Path(folder, "probe")),
        ]
        try:
            return subprocess.run(command, capture_output=True).returncode == 0
        except OSError:
            return False


compile_args = [
    "-std=gnu11",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wall",
    "-Wno-unused-function",
]
link_args = []
if SANITIZE:
    compile_args += [
        "-O1",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-omit-frame-pointer",
        "-DFDP_NO_CLONES",
    ]
    link_args += ["-fsanitize=address,undefined"]
elif DEBUG:
    compile_args += ["-O0", "-g", "-DFDP_NO_CLONES"]
else:
    compile_args += ["-O3", "-DNDEBUG"]
if not SERIAL and openmp_works():
    compile_args.append("-fopenmp")
    link_args.append("-fopenmp")
else:
    print("fastdp: building without OpenMP, one thread only", file=sys.stderr)
    compile_args.append("-fopenmp-simd")

extensions = []
for pyx in sorted(Path("fastdp/_core").glob("*.pyx")):
    name = pyx.stem
    if ONLY and name not in ONLY:
        continue
    units = sorted(Path("csrc").glob(f"{name}.c")) + sorted(Path("csrc").glob(f"{name}_*.c"))
    extensions.append(
        Extension(
            f"fastdp._core.{name}",
            [str(pyx), *map(str, units)],
            include_dirs=["csrc", numpy.get_include()],
            depends=[str(h) for h in Path("csrc").glob("*.h")],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
            extra_compile_args=compile_args,
            extra_link_args=link_args,
        )
    )

directives = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
}
setup(ext_modules=cythonize(extensions, compiler_directives=directives, quiet=True))
