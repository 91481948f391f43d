"""The machine a figure came from: processor, cores, memory, versions. Never a name of the machine
or its owner."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")
PACKAGES = ("fastdp", "numpy", "pyarrow", "polars", "duckdb", "pandas", "mbi", "jax", "numba")


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def processor() -> str:
    """Model of the processor as the kernel gives it."""
    text = _read("/proc/cpuinfo")
    match = re.search(r"^(?:model name|Model|CPU part)\s*:\s*(.+)$", text, re.M)
    return match[1].strip() if match else platform.processor() or "unknown"


def caches() -> dict[str, str]:
    """Cache sizes of the first core by level, e.g. {"L2": "2048K"}."""
    out = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind = _read(str(index / "type")).strip()
        if kind != "Instruction":
            out[f"L{_read(str(index / 'level')).strip()}"] = _read(str(index / "size")).strip()
    return out


def describe() -> dict:
    """Everything a reader needs to judge a figure."""
    memory = re.search(r"MemTotal:\s*(\d+)", _read("/proc/meminfo"))
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "processor": processor(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "caches": caches(),
        "memory_gb": round(int(memory[1]) / 2**20, 1) if memory else None,
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "packages": versions,
    }


def busy_seconds() -> float:
    """Processor time of all that ran on this machine since it started; nan where the system does
    not tell."""
    match = re.search(r"^cpu +(.+)$", _read("/proc/stat"), re.M)
    if not match:
        return float("nan")
    user, nice, system, _idle, _wait, *interrupts = map(int, match[1].split()[:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """Processor time of this process and of all that descend from it, ended or not; 0 where the
    system does not tell."""
    parents: dict[int, int] = {}
    times: dict[int, float] = {}
    for entry in Path("/proc").iterdir() if Path("/proc/self/stat").exists() else ():
        if entry.name.isdigit() and (text := _read(str(entry / "stat"))):
            fields = text.rsplit(")", 1)[1].split()
            parents[int(entry.name)] = int(fields[1])
            times[int(entry.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(times.get(pid, 0.0) for pid in family)


def peak_mb() -> float:
    """Peak resident memory of this process so far, in MB (from the kernel's high-water mark)."""
    match = re.search(r"VmHWM:\s*(\d+)", _read("/proc/self/status"))
    if match:
        return int(match[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def held_mb() -> float:
    """Resident memory of this process now, in MB; 0 where the system does not tell."""
    match = re.search(r"VmRSS:\s*(\d+)", _read("/proc/self/status"))
    return int(match[1]) / 1024 if match else 0.0


def kept(name: str) -> Any:
    """What bench/results/NAME.json holds."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def keep(name: str, figures: dict) -> None:
    """Puts figures into bench/results/NAME.json, with the machine they came from."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(
        json.dumps({"machine": describe(), **figures}, indent=1) + "\n"
    )


def keep_cells(name: str, cells: Mapping[str, Mapping[str, object]]) -> None:
    """Puts cells into bench/results/NAME.json, each with the machine it came from. Cells of other runs
    stay as they are."""
    path = RESULTS / f"{name}.json"
    found = json.loads(path.read_text())["found"] if path.exists() else {}
    here = describe()
    found |= {cell: {**figures, "machine": here} for cell, figures in cells.items()}
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps({"found": found}, indent=1) + "\n")
