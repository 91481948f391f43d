"""Facts about this installation, for bug reports and for finding out why it is slow."""

import os
import platform
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .._util.threads import available
from .common import HELP

REQUIRED = ("numpy", "scipy", "pyarrow", "polars", "msgspec", "mpmath")
VECTORS = ("sve2", "sve", "asimd", "neon", "avx512f", "avx2", "avx", "sse4_2")


def facts() -> dict[str, Any]:
    """Plain data: build, processor, threads, versions, optional parts, and `problems` (empty if
    none)."""
    import fastdp

    kernels, problems = _kernels(Path(fastdp.__file__).parent / "_core")
    packages = {name: _version(name) for name in REQUIRED}
    problems += [f"{name} is not installed" for name, number in packages.items() if number is None]
    return {
        "fastdp": fastdp.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "executable": sys.executable,
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "vectors": _vectors(),
        "cores": os.cpu_count(),
        "threads": available(),
        "kernels": kernels,
        "packages": packages,
        "optional": {name: _version(name) for name in HELP["optional"]},
        "problems": problems,
    }


def text(report: dict[str, Any]) -> str:
    """The facts as readable text."""
    lines = [
        f"fastdp {report['fastdp']}, {report['python']} ({report['executable']})",
        (
            f"{report['system']}, {report['machine']}; vector units:"
            f" {', '.join(report['vectors']) or 'unknown'}"
        ),
        f"threads used by default: {report['threads']} of {report['cores']} cores",
        f"compiled kernels: {', '.join(report['kernels'])}",
        "packages: "
        + ", ".join(f"{name} {number or 'MISSING'}" for name, number in report["packages"].items()),
    ]
    for name, number in report["optional"].items():
        lines.append(f"optional: {name} {number or 'not installed'} ({HELP['optional'][name]})")
    lines += [f"PROBLEM: {problem}" for problem in report["problems"]] or ["no problem found"]
    return "\n".join(lines)


def _kernels(folder: Path) -> tuple[list[str], list[str]]:
    """(names of the compiled parts that load, what is wrong with the others)."""
    names = sorted(path.stem for path in folder.glob("*.pyi"))
    loaded = []
    problems = []
    for name in names:
        try:
            import_module(f"fastdp._core.{name}")
            loaded.append(name)
        except ImportError as error:
            problems.append(f"kernel {name} does not load ({error}); build fastdp again")
    return loaded, problems


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _vectors() -> list[str]:
    """The processor's vector units as Linux names them; empty elsewhere."""
    try:
        words = set(Path("/proc/cpuinfo").read_text().lower().split())
    except OSError:
        return []
    return [name for name in VECTORS if name in words]
