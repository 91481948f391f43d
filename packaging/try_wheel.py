"""A wheel in fresh environments: `python packaging/try_wheel.py dist/*.whl [--python PROGRAM ...]`.

For every Python from 3.11 on that is found (on the path, and of pyenv), makes an environment,
installs the wheel that fits this machine, and runs three things with no compiler on the path:
`fastdp doctor`, the demo in small, and a seeded run. The digests of the synthetic rows must be
equal under all of them.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OLDEST = (3, 11)
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
TOOLS = ("sh", "env", "uname")
"""Programs on the path beside the environment's own; none of them compiles."""
DIGEST = """
import hashlib
import fastdp

trips = fastdp.simulate.taxi(20_000, seed=1)
run = fastdp.synthesize(trips, schema="taxi-deid2", epsilon=1, delta=1e-5, seed=1, sample_seed=1)
print(hashlib.sha256(repr(run.data.to_pydict()).encode()).hexdigest()[:16])
"""
DEMO = """
from pathlib import Path
from bench import demo

demo.CHICAGO = Path("absent")
demo.main(5_000, Path("demo-out"))
"""


def pythons() -> dict[str, Path]:
    """A program for each version, by its number."""
    named = [shutil.which(f"python{OLDEST[0]}.{n}") for n in range(OLDEST[1], 20)]
    programs = [*PYENV.glob("*/bin/python"), *(Path(name) for name in named if name)]
    free = "sysconfig.get_config_var('Py_GIL_DISABLED') or 0"
    ask = f"import sys, sysconfig; print(*sys.version_info[:2], {free})"
    out = {}
    for program in programs:
        done = subprocess.run([program, "-c", ask], capture_output=True, text=True)
        words = done.stdout.split()
        if done.returncode == 0 and (int(words[0]), int(words[1])) >= OLDEST:
            out.setdefault(f"{words[0]}.{words[1]}{'t' if words[2] == '1' else ''}", program)
    return dict(sorted(out.items()))


def fitting(program: Path, wheels: list[Path]) -> Path:
    """The wheel for this machine's processor and the C library of a Python."""
    ask = "import sysconfig; print(sysconfig.get_config_var('SOABI'))"
    said = subprocess.run([program, "-c", ask], check=True, capture_output=True, text=True).stdout
    tags = "musllinux" if "musl" in said else "manylinux"
    kept = [w for w in wheels if re.search(rf"{tags}\w*_{platform.machine()}", w.name)]
    if len(kept) != 1:
        raise SystemExit(f"expected one wheel for {program}, found {[w.name for w in wheels]}")
    return kept[0].resolve()


def tried(program: Path, wheel: Path, folder: Path) -> str:
    """Install the wheel for one Python and use it; the digest of a seeded run."""
    venv = folder / "venv"
    path = folder / "path"
    path.mkdir(parents=True)
    subprocess.run([program, "-m", "venv", venv], check=True)
    install = [venv / "bin/python", "-m", "pip", "install", "-q", "--only-binary=:all:", wheel]
    subprocess.run(install, check=True)
    for tool in TOOLS:
        (path / tool).symlink_to(shutil.which(tool) or tool)
    shutil.copytree(
        ROOT / "bench", folder / "bench", ignore=shutil.ignore_patterns("results", "out")
    )
    given = {"PATH": f"{venv / 'bin'}:{path}", "HOME": str(folder), "PYTHONPATH": str(folder)}

    def said(*words: str) -> str:
        done = subprocess.run(words, cwd=folder, env=given, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{program}: {words[:2]} failed\n{done.stdout}{done.stderr}")
        return done.stdout

    python = str(venv / "bin/python")
    if "no problem found" not in said(str(venv / "bin/fastdp"), "doctor"):
        raise SystemExit(f"{program}: fastdp doctor found a problem")
    if "Open the report" not in said(python, "-c", DEMO):
        raise SystemExit(f"{program}: the demo did not end as it should")
    return said(python, "-c", DIGEST).strip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheels", type=Path, nargs="+")
    parser.add_argument("--python", type=Path, action="append", metavar="PROGRAM")
    options = parser.parse_args()
    programs = {str(p): p for p in options.python} if options.python else pythons()
    digests = {}
    for name, program in programs.items():
        wheel = fitting(program, options.wheels)
        print(f"{name}: {wheel.name}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            digests[name] = tried(program, wheel, Path(folder))
        print(f"{name}: doctor, demo and a run: {digests[name]}", flush=True)
    if len(set(digests.values())) != 1:
        sys.exit(f"the same run gave different rows: {digests}")
    print(f"the same rows under {', '.join(digests)}")


if __name__ == "__main__":
    main()
