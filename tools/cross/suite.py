"""The Python tests on ARM64 under qemu-user: python -m tools.cross.suite FOLDER [arguments of
pytest]

Makes in FOLDER what is not there yet: Debian's Python for ARM64 with its libraries (unpacked, not
installed), wheels of what the tests need, the core built by the cross compiler. Then runs pytest
there, some ten times as slowly as on this machine. It needs a Debian machine with qemu-user,
gcc-aarch64-linux-gnu and this Python's minor version in Debian's archive.

Two tests fail under qemu-user and not on ARM64: threads made in a child of fork
(tests/core/test_team.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
WHEELS = [f"manylinux_2_{n}_aarch64" for n in (34, 31, 28, 27, 26, 24, 17)] + [
    "manylinux2014_aarch64"
]


def run(*command: object, **options: object) -> None:
    subprocess.run([str(word) for word in command], check=True, **options)  # type: ignore[call-overload]


def unpack_python(folder: Path) -> Path:
    """Debian's Python for ARM64 and its libraries, as a tree that qemu takes for the root."""
    root = folder / "root"
    state = folder / "apt"
    if root.exists():
        return root
    for part in ("lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    apt = ["apt-get", "-q", "-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64"]
    apt += ["-o", f"Dir::State={state}", "-o", f"Dir::State::status={state / 'status'}"]
    apt += ["-o", f"Dir::Cache={state / 'cache'}"]
    run(*apt, "update")
    packages = [f"python{VERSION}", f"python{VERSION}-minimal", "libstdc++6", "libgomp1"]
    run(*apt, "install", "-y", "--no-install-recommends", "--download-only", *packages)
    for package in sorted((state / "cache/archives").glob("*.deb")):
        run("dpkg-deb", "-x", package, root)
    return root


def fetch_wheels(folder: Path, extras: Sequence[str] = ("test",)) -> Path:
    """What the package and these extras need, for ARM64, in the versions of the lock where it names
    them."""
    site = folder / "site"
    if site.exists():
        return site
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needs = list(project["dependencies"])
    for extra in extras:
        needs += project["optional-dependencies"][extra]
    lock = (ROOT / "requirements-dev.lock").read_text("utf-8").splitlines()
    versions = folder / "versions.txt"
    versions.write_text(
        "\n".join(line.split()[0] for line in lock if "==" in line and line[0].isalnum())
    )
    platforms = [word for wheel in WHEELS for word in ("--platform", wheel)]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--target",
        site,
        "--only-binary=:all:",
        *platforms,
    ]
    run(*pip, "--python-version", VERSION, "-c", versions, *needs)
    return site


def build_tree(folder: Path) -> Path:
    """A copy of the sources with the core built for ARM64, made anew each time."""
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    left_out = shutil.ignore_patterns(".*", "build", "*.so", "__pycache__", "results")
    shutil.copytree(ROOT, tree, ignore=left_out)
    compiler = "aarch64-linux-gnu-gcc"
    cross = os.environ | {"CC": compiler, "LDSHARED": f"{compiler} -shared"}
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=tree, env=cross)
    return tree


def starter(folder: Path, root: Path, site: Path, tree: Path) -> Path:
    """A program that stands for ARM64's Python, also where tests start one themselves; `cc` is the
    cross compiler."""
    tools = folder / "bin"
    python = folder / "bin/python"
    tools.mkdir(exist_ok=True)
    for name in ("cc", "gcc"):
        (tools / name).unlink(missing_ok=True)
        (tools / name).symlink_to(shutil.which("aarch64-linux-gnu-gcc") or "")
    lines = [f"export PATH={tools}:$PATH PYTHONPATH={tree}:{site} OPENBLAS_NUM_THREADS=1"]
    lines.append(f'exec qemu-aarch64 -L {root} -0 {python} {root}/usr/bin/python{VERSION} "$@"')
    python.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    python.chmod(0o755)
    return python


def main() -> int:
    if len(sys.argv) < 2 or shutil.which("qemu-aarch64") is None:
        raise SystemExit(f"{__doc__}\nexpected a folder, and qemu-aarch64 on the path")
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    tree = build_tree(folder)
    python = starter(folder, unpack_python(folder), fetch_wheels(folder), tree)
    asked = sys.argv[2:] or [
        "-m",
        "not slow",
        "tests/core",
        "tests/model",
        "tests/estimate",
        "tests/privacy",
    ]
    return subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", *asked], cwd=tree
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
