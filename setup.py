"""Builds the compiled core: `fastdp/_core/NAME.pyx` over `csrc/NAME.c` and `csrc/NAME_*.c`.

To rebuild after an edit: `python setup.py -q build_ext --inplace`. To rebuild one module or two:
`FASTDP_EXT=count,noise python setup.py -q build_ext --inplace`. The module `fastdp._core._shared`
is made as well: it holds Cython's support code (memoryviews) once, and every other module imports
it.

The modules keep to Python's stable ABI: one build serves every CPython from 3.11 on
(docs/reference/platforms.md). A Python without the global lock has no stable ABI before 3.15; there
the modules are built for that one version.

The kernels (csrc/) are compiled at -O3. The wrappers only convert arguments and are compiled at
-O0, which halves the time they take; those of `LOOPS` go through rows themselves. All files are
compiled in parallel, one process per processor.

Threads are plain POSIX threads in teams (csrc/team.h), not OpenMP: its pool hangs in a forked child
and spins on a busy machine. `-fopenmp-simd` only enables `#pragma omp simd`; no OpenMP runtime is
linked.

Other switches (environment): FASTDP_DEBUG=1 (-O0, asserts), FASTDP_SANITIZE=1 (address and
undefined), FASTDP_SANITIZE=thread (data races).
"""

import os
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

DEBUG = os.environ.get("FASTDP_DEBUG") == "1"
SANITIZE = {"1": "address,undefined", "thread": "thread"}.get(os.environ.get("FASTDP_SANITIZE", ""))
ONLY = [n for n in os.environ.get("FASTDP_EXT", "").split(",") if n]
CORE = Path("fastdp/_core")
SHARED = "fastdp._core._shared"
LOOPS = {"score"}
OLDEST = (3, 11)  # the first whose stable ABI has the buffer protocol
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")
PROCESSES = (
    len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
)


macros = []
if STABLE:
    macros.append(("Py_LIMITED_API", f"0x{OLDEST[0]:02X}{OLDEST[1]:02X}0000"))
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
    compile_args += ["-DNDEBUG", "-g0"]  # debug information would be four fifths of the package


class Build(build_ext):
    """Compiles kernels at -O3 and wrappers at -O0; the files of an extension in parallel."""

    def copy_extensions_to_source(self) -> None:
        """Put the modules beside their sources, and remove those that an earlier build made under
        another name: Python would load them first."""
        super().copy_extensions_to_source()
        for extension in self.extensions:
            made = Path(self.get_ext_filename(self.get_ext_fullname(extension.name)))
            for other in made.parent.glob(made.name.split(".")[0] + ".*.so"):
                if other.name != made.name:
                    other.unlink()

    def build_extensions(self) -> None:
        one = self.compiler._compile
        several = self.compiler.compile

        def compile_one(obj, source, ext, cc_args, extra, pp_opts):
            path = Path(source)
            kernel = path.parts[0] == "csrc"
            if kernel:
                level = "-O3"
            else:
                level = "-O2" if path.stem in LOOPS else "-O0"
                # Looking for faults in generated code takes a quarter of its time.
                extra = [*extra, "-w"]
            one(
                obj,
                source,
                ext,
                cc_args,
                [*extra, *([] if SANITIZE or DEBUG else [level])],
                pp_opts,
            )

        def compile_several(sources, **options):
            return [
                o for made in pool.map(lambda s: several([s], **options), sources) for o in made
            ]

        self.compiler._compile, self.compiler.compile = compile_one, compile_several
        with ThreadPoolExecutor(PROCESSES) as pool:
            super().build_extensions()


headers = [*map(str, [*Path("csrc").glob("*.h"), *CORE.glob("*.pxd")])]
extensions = [
    Extension(
        SHARED,
        [str(CORE / "_shared.c")],
        define_macros=macros,
        py_limited_api=STABLE,
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )
]
for pyx in sorted(CORE.glob("*.pyx")):
    name = pyx.stem
    if ONLY and name not in ONLY:
        continue
    units = sorted(Path("csrc").glob(f"{name}.c")) + sorted(Path("csrc").glob(f"{name}_*.c"))
    extensions.append(
        Extension(
            f"fastdp._core.{name}",
            [str(pyx), *map(str, units)],
            include_dirs=["csrc"],
            depends=[str(pyx), *headers],  # also what a source archive must hold
            define_macros=macros,
            py_limited_api=STABLE,
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
    ext_modules=cythonize(
        extensions,
        nthreads=PROCESSES,
        compiler_directives=directives,
        quiet=True,
        shared_utility_qualified_name=SHARED,
    ),
    options={
        "build_ext": {"parallel": PROCESSES},
        "bdist_wheel": {"py_limited_api": "cp{}{}".format(*OLDEST)} if STABLE else {},
    },
    cmdclass={"build_ext": Build},
)
