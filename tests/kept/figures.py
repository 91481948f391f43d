"""Results as JSON, and whether two of them are the same."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
import inspect
import json
import math
import platform
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from fastdp.errors import FastdpError

HERE = Path(__file__).parent
LONGEST = 64
"""Lists of whole numbers or texts that are longer are kept as their length and a digest."""
CLOSE = 1e-6
TINY = 1e-14
EXACT = 1 << 40
"""Fractions of larger denominators come from floats, whose last bits are the machine's: kept as floats."""
REFUSALS = (ValueError, TypeError, LookupError, ArithmeticError)
UNCOMPARED: dict[str, list[str]] = json.loads((HERE / "uncompared.json").read_text("utf-8"))
"""Cases by subject whose figures hang on roundings, or were not compared elsewhere yet: kept on ARM64."""


def plain(value: Any) -> Any:
    """JSON of a result, which is its own plain form: NaN and infinite floats are texts, fractions texts or
    floats, mappings lists of pairs in their order."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, enum.Enum):
        return int(value)
    if isinstance(value, float | np.floating) or (isinstance(value, Fraction) and value.denominator > EXACT):
        x = float(value)
        return float(f"{x:.9g}") if math.isfinite(x) else str(x)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"bytes {hashlib.sha256(value).hexdigest()[:16]} {len(bytes(value))}"
    if isinstance(value, Decimal | Fraction | dt.date | dt.time | dt.timedelta | enum.Enum):
        return str(value)
    if isinstance(value, Path):
        return value.name
    if isinstance(value, type) or inspect.isroutine(value):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), plain(value.ravel().tolist())]
    if isinstance(value, pl.Series | pl.DataFrame):
        return plain(value.to_arrow())
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return [str(value.type), plain(value.to_pylist())]
    if isinstance(value, pa.Table | pa.RecordBatch):
        return [[name, plain(value.column(name))] for name in value.schema.names]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [[f.name, plain(getattr(value, f.name))] for f in dataclasses.fields(value)]
    if isinstance(value, msgspec.Struct):
        return [[name, plain(getattr(value, name))] for name in value.__struct_fields__]
    if isinstance(value, Mapping):
        return [[plain(k), plain(v)] for k, v in value.items()]
    if isinstance(value, set | frozenset):
        return sorted((plain(v) for v in value), key=repr)
    if isinstance(value, list | tuple):
        items = [plain(v) for v in value]
        if len(items) > LONGEST and all(v is None or isinstance(v, int | str) for v in items):
            digest = hashlib.sha256(json.dumps(items).encode()).hexdigest()[:16]
            return f"{len(items)} items {digest}"
        return items
    return f"a {type(value).__name__}"


def given(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a call gives, or how it refuses; of errors of other packages, whose texts change, the kind."""
    try:
        return plain(call(*arguments, **options))
    except FastdpError as error:
        return f"{type(error).__name__}: {error}"
    except REFUSALS as error:
        return type(error).__name__


def differences(kept: Any, got: Any, where: str = "", tiny: float = TINY) -> list[str]:
    """Where two results differ; floats may by CLOSE of the larger one or `tiny`."""
    if isinstance(kept, list) and isinstance(got, list) and len(kept) == len(got):
        pairs = enumerate(zip(kept, got))
        return [d for n, (a, b) in pairs for d in differences(a, b, f"{where}[{n}]", tiny)]
    if isinstance(kept, float) and isinstance(got, float):
        same = math.isclose(kept, got, rel_tol=CLOSE, abs_tol=tiny)
    else:
        same = type(kept) is type(got) and kept == got
    return [] if same else [f"{where}: {kept!r} was kept, not {got!r}"]


def check(subject: str, name: str, got: Any, tiny: float = TINY) -> None:
    """Fails where a case's result is not the one that is kept. `tiny`: what floats may be off by that differ
    by rounding from 0; 0.0 where small floats are meant.

    Skipped on other processors where it is one of UNCOMPARED."""
    if platform.machine() != "aarch64" and name in UNCOMPARED.get(subject, ()):
        pytest.skip("kept on ARM64: hangs on roundings, or was not compared with other processors yet")
    kept = json.loads((HERE / f"{subject}.json").read_text("utf-8"))
    problems = differences(kept[name], json.loads(json.dumps(plain(got))), name, tiny)
    assert not problems, "\n".join([*problems[:20], f"if this is meant: python -m tests.kept {subject}"])


def keep(subject: str, cases: Mapping[str, Callable[[], Any]]) -> None:
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(plain(case()))}" for name, case in cases.items())
    (HERE / f"{subject}.json").write_text("{\n" + lines + "\n}\n", "utf-8")
