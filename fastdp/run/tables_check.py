"""What `verify` reads of the released tables of distances, contrasts and people: no number in them is
more precise than the releases that the statement lists allow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..answers.measurements_file import RELEASED
from ..errors import RunError
from ..privacy.release_checks import MORE
from .parquet_limits import batches, bounded_file

MOST_ROWS = 1 << 24
"""Rows of such a table: more than a run has pairs and triples of columns."""
ERROR = "standard_error"
KINDS = {
    "distances": ("distances", False),
    "contrasts": ("contrasts", False),
    "people": ("distances", True),
}
"""Name of a table -> the kind of release that its numbers come from, and whether it is of users."""


def table_problems(folder: Path, releases: Sequence[Mapping]) -> Iterator[str]:
    """Problems where a table has numbers of which the statement lists no release, or with less noise than
    all listed releases of their kind have together. A statement that left such releases out would claim
    less than was released."""
    for name, (kind, users) in KINDS.items():
        path = folder / f"{name}{RELEASED}"
        if not path.is_symlink() and not path.exists():
            continue
        least, answers = _least_error(path)
        sources = [r for r in releases if r["kind"] == kind and (r.get("of") == "users") == users]
        precision = math.fsum(r["sigma"] ** -2.0 for r in sources)
        if answers and not sources:
            yield f"{path.name} has {kind}, but the statement lists no such release"
        elif answers and not least**-2.0 <= precision * MORE:
            yield f"{path.name} has {kind} with less noise than the releases in the statement"


def _least_error(path: Path) -> tuple[float, int]:
    """(the least standard error in a table, how many it has); RunError unless all are above 0."""
    least = math.inf
    answers = 0
    with bounded_file(path, [ERROR]) as file:
        if file.metadata.num_rows > MOST_ROWS:
            raise RunError(f"{path.name} has more rows than a run writes")
        for batch in batches(file, [ERROR], path.name):
            errors = batch.column(0).drop_null().to_numpy(zero_copy_only=False)
            if not (np.isfinite(errors) & (errors > 0)).all():
                raise RunError(f"{path.name} has standard errors that are not numbers above 0")
            least = min(least, float(errors.min(initial=math.inf)))
            answers += len(errors)
    return least, answers
