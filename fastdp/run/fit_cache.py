"""Fits of a run. Each fitted model is stored, so that a run resumed after a fit does not repeat it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .._util.progress import Reporter
from ..measurement import Measurement
from ..model import Model


def fit_once(
    domain: Mapping[str, int],
    measurements: Sequence[Measurement],
    cache: Path | None,
    reporter: Reporter,
    *,
    keep: Callable[[Callable[[], None]], object],
    threads: int | None,
    **options: Any,
) -> Model:
    """Fits a model, or loads from the folder `cache` the one already fitted to the same noisy answers. `keep`
    is handed the function that stores it, and may call it while the run goes on."""

    from ..estimate import fit  # brings scipy.sparse: loaded while rows are read (`preload`)

    path = None if cache is None else cache / f"model-{_digest(domain, measurements, options)}.fastdp"
    if path is not None and path.exists():
        return Model.load(path)

    calls = 0

    def report_progress(*args, **kwargs) -> None:
        nonlocal calls
        reporter.check()
        calls += 1
        reporter.update("fit", 1 - 0.97**calls, "fitting the model")

    with reporter.stage("fit", "fitting the model"):
        model = fit(domain, measurements, threads=threads, callback=report_progress, **options)
    if path is not None:
        path.parent.mkdir(exist_ok=True)
        keep(partial(model.save, path))
    return model


def _digest(
    domain: Mapping[str, int], measurements: Sequence[Measurement], options: Mapping[str, Any]
) -> str:
    """A digest of everything that decides the fitted model. Limits are left out: they only decide whether a
    fit is refused."""
    zeros = options.get("zeros") or {}
    plain = {key: value for key, value in options.items() if key not in ("zeros", "max_cells")}
    h = hashlib.sha256(json.dumps([dict(domain), plain], default=str).encode())
    for clique, mask in zeros.items():
        h.update(repr(clique).encode() + np.packbits(mask).tobytes())
    for m in measurements:
        h.update(repr((m.clique, m.query)).encode())
        h.update(np.ascontiguousarray(m.values).tobytes())
        h.update(np.ascontiguousarray(m.sigma).tobytes())
    return h.hexdigest()[:24]
