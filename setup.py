"""Builds the compiled core: `fastdp/_core/NAME.pyx` over `csrc/NAME.c` and `csrc/NAME_*.c`.

Threads are plain POSIX threads in teams (csrc/team.h), not OpenMP: its pool hangs in a forked child and spins
on a busy machine. `-fopenmp-simd` only enables `#pragma omp simd`; no OpenMP runtime is linked.

Switches (environment): FASTDP_DEBUG=1 (-O0, asserts), FASTDP_SANITIZE=1 (address and undefined),
FASTDP_SANITIZE=thread (data races), FASTDP_EXT=count,noise (build only these).
"""

import os
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("FASTDP_DEBUG") == "1"
SANITIZE = {"1": "address,undefined", "thread": "thread"}.get(os.environ.get("FASTDP_SANITIZE", ""))
ONLY = [n for n in os.environ.get("FASTDP_EXT", "").split(",") if n]


compile_args = [
    "-std=gnu11",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wall",
    "-pthread",
    "-fopenmp-simd",
    "-Wno-unused-function",
    "-Wno-psabi",
]
link_args = ["-pthread"]
if SANITIZE:
    compile_args += [
        "-O1",
        "-g",
        f"-fsanitize={SANITIZE}",
        "-fno-omit-frame-pointer",
        "-DFDP_NO_CLONES",
    ]
    link_args += [f"-fsanitize={SANITIZE}"]
elif DEBUG:
    compile_args += ["-O0", "-g", "-DFDP_NO_CLONES"]
else:
    compile_args += ["-O3", "-DNDEBUG", "-g0"]  # debug information would be four fifths of the package

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
            depends=[
                str(pyx),
                *map(str, [*Path("csrc").glob("*.h"), *pyx.parent.glob("*.pxd")]),
            ],  # also what a source archive must hold
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
setup(
    ext_modules=cythonize(extensions, compiler_directives=directives, quiet=True),
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
