"""The statement: `privacy.json`, everything a reader needs to know, and to check, about what a run
promised.

`build` makes it from the run's parts, `write` puts it into a folder together with the hashes of
every file there; `recompute` checks it. The schema is published next to this file
(`statement.schema.json`); format "fastdp-privacy/1" will not change its meaning, new fields may be
added.
"""

import functools
import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from .._util.files import write_atomic
from .._util.threads import available
from ..errors import RunError
from ..measurement import SCALE
from ..schema import Schema
from . import noise
from .accountant import Event, event_from_dict
from .budget import combined_mu, epsilon_at, pure_epsilon
from .sampler_distance import added_delta
from .series import protection
from .unit import Unit

FORMAT = "fastdp-privacy/1"
NAME = "privacy.json"

WEAK_EPSILON = 20.0
WEAK_DELTA = 1e-3
"""Above these the statement says that the promise is weak, and the command line asks for --yes."""

KEYS_NOTE = "by private key selection"
"""What `select_keys` writes into a schema's provenance."""

NOT_PROTECTED = (
    "the public data named here, and everything learnt from it",
    "facts about groups: the promise weakens with the number of users that act together",
    "what the synthetic data teaches about the population, which holds whether or not a given user "
    "is in the data",
    "how long the run took, how much memory it used, and traces in swap or in core dumps",
    "the ledger, logs, timings and the report made with the truth, which are not for release",
)
"""What no run protects. The schema comes before these: see `schema_not_protected`."""


def part(
    cap: Event,
    asked: Mapping,
    clip: int,
    releases: Sequence[Mapping],
    choice: Mapping | None = None,
) -> dict:
    """One epsilon of a run: what was asked, the most it may spend (fixed before data was read), and
    its releases. `choice`: how the clip was chosen, if the run chose it."""
    events = [event_from_dict(r["event"]) for r in releases]
    delta = asked["delta"]
    chosen = {} if choice is None else {"clip_choice": dict(choice)}
    spent = {"epsilon": epsilon_at(events, delta), "mu": combined_mu(events) if events else 0.0}
    bound = {"asked": dict(asked), "event": cap.to_dict(), "epsilon": epsilon_at([cap], delta)}
    return bound | {"spent": spent, "clip": clip, **chosen, "releases": [dict(r) for r in releases]}


def build(
    parts: Sequence[Mapping],
    reference: Mapping,
    schema: Schema,
    *,
    unit: str,
    second: Any,
    seeded: bool,
    mechanism: Mapping | None = None,
    public_data: Sequence[Mapping] = (),
    notes: Sequence[str] = (),
    only: int | None = None,
    found: Mapping | None = None,
    series: Mapping | None = None,
) -> dict:
    """The statement of a run. Epsilon, delta and mu are those of all parts together, by their upper
    bounds: they hold however the run chose its measurements. `found`: which of the schema's columns
    were found in the run. `series`: the releases of the run's series, up to this one."""
    caps = [event_from_dict(p["event"]) for p in parts]
    delta = parts[0]["asked"]["delta"]
    method = parts[0]["asked"]["method"]
    pure = pure_epsilon(caps) is not None
    epsilon = epsilon_at(caps, delta)
    draws = draws_of(parts)
    statement = {
        "format": FORMAT,
        "private": not seeded,
        "epsilon": epsilon,
        "delta": delta,
        "mu": combined_mu(caps),
        "unit": _unit(schema, unit),
        **two_numbers(schema, parts, delta, series),
        "bound": _bound(schema, unit, parts),
        "parts": [dict(p) for p in parts],
        "accountant": {
            "name": "pure sum" if pure else "Gaussian differential privacy",
            "method": method,
            "second": str(second),
        },
        "noise": {
            "gaussian": noise.SAMPLER,
            "laplace": noise.LAPLACE_SAMPLER,
            "grid": {"rows_per_unit": 1 / SCALE, "log2": 1 - SCALE.bit_length()},
            "log2_distance_per_draw": noise.LOG2_DISTANCE,
            "draws": draws,
            "adds_to_delta": min(1.0, added_delta(epsilon, draws)),
            "source": (
                "a seed known to the caller: NOT PRIVATE"
                if seeded
                else "operating system, ChaCha20"
            ),
        },
        "schema": {
            "name": schema.name,
            "sha256": schema.digest(),
            "provenance": schema.provenance or "not stated",
            **({"learnt": list(schema.learnt)} if schema.learnt else {}),
            **({} if found is None else {"found": dict(found)}),
        },
        "mechanism": dict(mechanism or {}),
        "public_data": [dict(p) for p in public_data],
        "not_protected": [
            schema_not_protected(found is not None),
            *over_periods_not_protected(schema),
            *NOT_PROTECTED,
        ],
        "ledger": dict(reference),
        "versions": versions(),
    }
    if only is not None:
        statement["part"] = only
    remarks = _remarks(epsilon, delta, reference, schema, seeded)
    statement["notes"] = [*notes, *period_remarks(statement, schema), *remarks]
    return statement


def two_numbers(
    schema: Schema, parts: Sequence[Mapping], delta: float, series: Mapping | None
) -> dict[str, Any]:
    """`protection`, and the series by which it can be recomputed, where the unit is a user-period;
    nothing else."""
    if schema.period is None:
        return {}
    numbers = {"protection": protection(parts, delta, series)}
    return numbers if series is None else numbers | {"series": dict(series)}


def over_periods_not_protected(schema: Schema) -> list[str]:
    """What a unit of user and period leaves open."""
    if schema.period is None:
        return []
    each = schema.period.length
    return [
        f"what the rows of one user over several {each}s show together: habits from {each} to "
        f"{each}, and whether the user is in the data at all; for these the number `user` counts, "
        "where the statement has one"
    ]


def period_remarks(statement: Mapping, schema: Schema) -> Iterator[str]:
    """The two numbers of a statement about user-periods, in words."""
    if schema.period is None:
        return
    each = schema.period.length
    user = statement["protection"]["user"]
    yield f"an id in the rows stands for one user in one {each}, and is fresh in every release"
    if user is None:
        yield (
            f"the guarantee is for one {each} of a user; a user with rows in k {each}s of this "
            "table is protected by k times mu"
        )
    else:
        own = statement["protection"]["user_period"]
        yield (
            f"one {each} of a user: epsilon {own['epsilon']:.6g}; one user in every {each} released "
            f"so far ({user['periods']}): epsilon {user['epsilon']:.6g}; both at delta "
            f"{user['delta']:g}"
        )


def schema_not_protected(found: bool) -> str:
    """The part of the schema that the guarantee does not cover. `found`: the run found private
    columns."""
    if not found:
        return (
            "the schema, its code lists, bin edges and bounds, which must come from public sources"
        )
    return (
        "of the schema, all but the values, edges, bounds and means of the columns under "
        "schema.found, which were found privately and are covered; the rest must come from public "
        "sources"
    )


def _remarks(
    epsilon: float, delta: float, reference: Mapping, schema: Schema, seeded: bool
) -> Iterator[str]:
    """What a reader must know about this run beyond its figures."""
    yield from weak_promise(epsilon, delta)
    if not reference["counts_other_runs"]:
        yield "no ledger was used: other runs on the same data are not counted"
    if KEYS_NOTE in (schema.provenance or ""):
        yield (
            "values of the schema were selected from private data, which cost an epsilon and delta "
            "of its own: see its provenance"
        )
    if schema.learnt:
        more = ", ..." if len(schema.learnt) > 3 else ""
        lines = ", ".join(schema.learnt[:3]) + more
        yield (
            f"lines of the schema are marked LEARNT, drafted from data ({lines}): unless that data "
            "is public, the guarantee does not hold for what they say"
        )
    if schema.dialect.trusts_writer:
        yield (
            "text files are read in a dialect in which a line is not read by itself (newlines in "
            "values, UTF-16 or UTF-32): the promise assumes that whoever wrote them did so "
            "correctly, whatever the values"
        )
    if seeded:
        yield "the noise was drawn from a known seed: this run protects nobody"


def weak_promise(epsilon: float, delta: float) -> list[str]:
    """What a reader must know where epsilon or delta are so large that the promise says little."""
    texts = []
    if epsilon > WEAK_EPSILON:
        texts.append(
            f"epsilon {epsilon:.6g} is above {WEAK_EPSILON:g}: whoever suspects that a person is "
            "in the data may become all but certain of it; such a promise protects next to nothing"
        )
    if delta > WEAK_DELTA:
        texts.append(
            f"delta {delta:g} is above {WEAK_DELTA:g}: with that probability a person's rows may "
            "be published as they are; delta should be far below 1 / number of people"
        )
    return texts


def draws_of(parts: Sequence[Mapping]) -> int:
    """How many random numbers the releases of all parts took; of keys, whose number is private, at
    most."""
    return sum(int(r.get("draws", r["count"])) for p in parts for r in p["releases"])


def _unit(schema: Schema, kind: str) -> dict:
    unit = Unit.of(schema, kind)
    return {**unit.to_dict(), "adjacency": unit.adjacency}


def _bound(schema: Schema, unit: str, parts: Sequence[Mapping]) -> dict:
    """How rows per user are bounded, for the statement."""
    clips = [p["clip"] for p in parts]
    if schema.user is None or unit == "event":
        return {"how": "each row weighs 1", "clip": clips}
    one = "user" if schema.period is None else f"user in one {schema.period.length}"
    return {
        "how": (
            f"each row of a {one} with R rows weighs min(2^20, floor(clip 2^20 / R)) units of 2^-20"
            f" rows; histograms of users count each {one} at most cap times"
        ),
        "clip": clips,
        "clip_from": [p.get("clip_choice", {}).get("from", "recipe or schema") for p in parts],
        "enforced": "by integer weights, whatever the data holds",
    }


def versions() -> dict:
    """The program that made the statement, down to the hash of its files."""
    from .. import __version__

    facts = {"fastdp": __version__, "build": build_hash(), "python": platform.python_version()}
    return facts | {"numpy": np.__version__, "machine": platform.machine()}


@functools.cache
def build_hash() -> str:
    """sha256 over the package's sources and compiled files, in order of their paths."""
    root = Path(__file__).parents[1]
    h = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".so", ".pyx", ".toml")):
        h.update(f"{path.relative_to(root).as_posix()}\0{file_hash(path)}\n".encode())
    return h.hexdigest()


def file_hash(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """(relative name, path) of every file below a folder, links not followed, the statement itself
    left out."""
    for base, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(base, name)
            relative = path.relative_to(folder).as_posix()
            if relative != NAME:
                yield relative, path


def write(
    folder: str | os.PathLike, statement: Mapping, hashed: Mapping[str, str] | None = None
) -> dict:
    """Write `privacy.json` with the hashes of all other files in the folder; returns what was
    written. `hashed`: hashes of files, by relative name, taken since they were written."""
    folder = Path(folder)
    whole = dict(statement)
    hashes = dict(hashed or {})
    files = dict(files_of(folder))
    left = [name for name in files if name not in hashes]
    with ThreadPoolExecutor(available()) as pool:
        hashes.update(zip(left, pool.map(file_hash, map(files.__getitem__, left))))
    whole["files"] = {name: hashes[name] for name in files}
    text = json.dumps(whole, indent=1, allow_nan=False) + "\n"
    try:
        write_atomic(folder / NAME, text.encode())
    except OSError as error:
        raise RunError(f"{folder / NAME} cannot be written: {error.strerror}") from None
    return whole


PART_FOLDERS = ("eps-*", "table-*")
"""Names of the folders of a run's parts: one for each epsilon, or one for each linked table."""


def part_folders(folder: Path) -> list[Path]:
    """The folders of a run's parts, in order of their names; links are left out."""
    found = [p for pattern in PART_FOLDERS for p in folder.glob(pattern)]
    return sorted(p for p in found if p.is_dir() and not p.is_symlink())


def statement_hashes(folder: Path) -> list[str]:
    """sha256 of the statements of a run's folder: its own, and that of each part's folder in it."""
    inner = (path / NAME for path in part_folders(folder))
    return [
        file_hash(path) for path in sorted([*folder.glob(NAME), *(p for p in inner if p.is_file())])
    ]


def load_schema() -> dict:
    """The published JSON schema of a statement."""
    return json.loads(Path(__file__).with_name("statement.schema.json").read_text(encoding="utf-8"))
