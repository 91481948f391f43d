"""The wheel for ARM64 used under qemu-user: python -m tools.cross.wheel FOLDER dist/*_aarch64.whl

Makes in FOLDER what is not there yet: Debian's Python for ARM64 (as `tools.cross.suite` does) and
wheels of what the package needs. Unpacks the wheel beside them, and runs with it `fastdp doctor` and
the seeded run of packaging/try_wheel.py. The synthetic rows must be those of this machine.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from .suite import ROOT, VERSION, fetch_wheels, unpack_python


def digest_program() -> str:
    """The seeded run of packaging/try_wheel.py, as a program."""
    found = importlib.util.spec_from_file_location("try_wheel", ROOT / "packaging/try_wheel.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return str(module.DIGEST)


def main() -> int:
    if len(sys.argv) != 3 or shutil.which("qemu-aarch64") is None:
        raise SystemExit(f"{__doc__}\nexpected a folder and a wheel, and qemu-aarch64 on the path")
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "wheel"
    shutil.rmtree(place, ignore_errors=True)
    with zipfile.ZipFile(sys.argv[2]) as wheel:
        wheel.extractall(place)
    root = unpack_python(folder)
    packages = [str(place), str(fetch_wheels(folder, ()))]
    python = ["qemu-aarch64", "-L", str(root), str(root / f"usr/bin/python{VERSION}")]

    def said(*words: str) -> str:
        paths = {"PYTHONPATH": os.pathsep.join(packages), "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            [*python, *words], cwd=folder, env=os.environ | paths, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise SystemExit(f"{words[:2]} failed under qemu\n{done.stdout}{done.stderr}")
        return done.stdout

    report = said("-m", "fastdp", "doctor")
    if "no problem found" not in report:
        raise SystemExit(f"fastdp doctor found a problem on ARM64\n{report}")
    there = said("-c", digest_program()).strip()
    own = [sys.executable, "-c", digest_program()]
    here = subprocess.run(own, check=True, capture_output=True, text=True).stdout.strip()
    print(f"ARM64 under qemu-user, Python {VERSION}: doctor, and a run: {there}")
    if there != here:
        print(f"this machine has other rows: {here}")
        return 1
    print("the same rows as on this machine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
