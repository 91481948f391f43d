"""The kernels' vectors on a processor, its own or another's: python -m tools.cross aarch64 | x86_64

Compiles csrc/ and the harness for the processor, with Debian's cross compiler where it is not this
machine's, and runs every case there or under qemu-user. On x86-64 under qemu the baseline and the
AVX2 copies of the kernels are run. `--sanitize address,undefined` or `thread`: on this machine
under gcc's sanitisers. Exit code 1 where a result differs or a sanitiser complains.
"""

from __future__ import annotations

import argparse
import ast
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import vectors

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MACHINES = ("aarch64", "x86_64")


def flags() -> list[str]:
    """The compiler's arguments of a release build, as setup.py names them."""
    tree = ast.parse((ROOT / "setup.py").read_text("utf-8"))
    named = [
        n
        for n in tree.body
        if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "compile_args"
    ]
    return [*ast.literal_eval(named[0].value), "-O3", "-DNDEBUG"]


def compiler(machine: str) -> str:
    """The C compiler for a processor; SystemExit says what to install."""
    if machine == platform.machine():
        return os.environ.get("CC", "gcc")
    name = f"{machine}-linux-gnu-gcc"
    if shutil.which(name) is None:
        package = f"gcc-{machine.replace('_', '-')}-linux-gnu"
        raise SystemExit(f"there is no {name}; install it (Debian: {package} and qemu-user)")
    return name


def runners(machine: str) -> dict[str, list[str]]:
    """How a program of the processor is run here, by name."""
    if machine == platform.machine():
        return {"this machine": []}
    qemu = f"qemu-{machine}"
    if shutil.which(qemu) is None:
        raise SystemExit(f"there is no {qemu}; install it (Debian: qemu-user)")
    libraries = ["-L", f"/usr/{machine}-linux-gnu"]
    if machine == "x86_64":
        return {f"qemu -cpu {cpu}": [qemu, *libraries, "-cpu", cpu] for cpu in ("qemu64", "max")}
    return {"qemu": [qemu, *libraries]}


def build(machine: str, folder: Path, sanitize: str | None = None) -> Path:
    """The harness for a processor."""
    program = folder / f"harness-{machine}"
    sources = sorted([*(ROOT / "csrc").glob("*.c"), *HERE.glob("*.c")])
    watched = [
        "-O1",
        "-g",
        f"-fsanitize={sanitize}",
        "-fno-sanitize-recover=all",
        "-DFDP_NO_CLONES",
    ]
    command = [
        compiler(machine),
        *flags(),
        *(watched if sanitize else ()),
        "-I",
        str(ROOT / "csrc"),
        *map(str, sources),
    ]
    subprocess.run([*command, "-o", str(program), "-lm"], check=True)
    return program


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.cross",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    other = MACHINES[platform.machine() == MACHINES[0]]
    parser.add_argument("machine", nargs="?", choices=MACHINES, default=other)
    parser.add_argument(
        "--sanitize", choices=("address,undefined", "thread"), help="only on this machine"
    )
    parser.add_argument("--work", type=Path, help="a folder to keep program and vectors in")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        program = build(options.machine, folder, options.sanitize)
        vectors.write(folder / "vectors.bin")
        for name, command in runners(options.machine).items():
            print(f"{options.machine} on {platform.machine()}, {name}", flush=True)
            wrong |= subprocess.run(
                [*command, str(program), str(folder / "vectors.bin")]
            ).returncode
    return int(wrong != 0)


if __name__ == "__main__":
    sys.exit(main())
