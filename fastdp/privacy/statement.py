"""The statement: `privacy.json`, everything a reader needs to know, and to check, about what a run promised.

`build` makes it from the run's parts, `write` puts it into a folder together with the hashes of every file
there, `problems` recomputes it. The schema is published next to this file (`statement.schema.json`); format
"fastdp-privacy/1" will not change its meaning, new fields may be added.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._util.threads import available
from ..errors import RunError
from ..measurement import SCALE
from ..schema.pending import MOST_KEYS_PER_USER
from . import clip as clip_rules
from . import noise
from .accountant import BoundedRange, Event, Gaussian, Pure, Threshold, event_from_dict
from .budget import combined_mu, epsilon_at, pure_epsilon
from .chain import part_budget
from .sampler_distance import PURE, SHARE, added_delta
from .scale import laplace_std
from .unit import Unit

if TYPE_CHECKING:
    from ..schema import Schema

FORMAT = "fastdp-privacy/1"
NAME = "privacy.json"

LAWS: dict[tuple[str, str], type] = {
    ("marginal", "gaussian"): Gaussian,
    ("user_histogram", "gaussian"): Gaussian,
    ("user_histogram", "discrete-laplace"): Pure,
    ("select", "exponential"): BoundedRange,
    ("distances", "gaussian"): Gaussian,
    ("guesses", "gaussian"): Gaussian,
    ("filtered", "gaussian"): Gaussian,
    ("grid", "gaussian"): Gaussian,
    ("keys", "threshold"): Threshold,
    ("schema", "none"): Gaussian,
}
"""What a run releases, and the kind of event it is charged as."""

WEAK_EPSILON = 20.0
WEAK_DELTA = 1e-3
"""Above these the statement says that the promise is weak, and the command line asks for --yes."""

KEYS_NOTE = "by private key selection"
"""What `select_keys` writes into a schema's provenance."""

WRITER_NOTE = (
    "text files are read in a dialect in which a line is not read by itself (newlines in values, UTF-16 or "
    "UTF-32): the promise assumes that whoever wrote them did so correctly, whatever the values"
)
"""What a statement says where `schema.dialect.trusts_writer`."""

LEARNT_NOTE = "lines of the schema are marked LEARNT, drafted from data"
SCHEMA_PUBLIC = "the schema, its code lists, bin edges and bounds, which must come from public sources"
SCHEMA_FOUND = (
    "of the schema, all but the values, edges, bounds and means of the columns under schema.found, which "
    "were found privately and are covered; the rest must come from public sources"
)
NOT_PROTECTED = (
    SCHEMA_PUBLIC,
    "the public data named here, and everything learnt from it",
    "facts about groups: the promise weakens with the number of users that act together",
    "what the synthetic data teaches about the population, which holds whether or not a given user is in the "
    "data",
    "how long the run took, how much memory it used, and traces in swap or in core dumps",
    "the ledger, logs, timings and the report made with the truth, which are not for release",
)


def part(
    cap: Event, asked: Mapping, clip: int, releases: Sequence[Mapping], choice: Mapping | None = None
) -> dict:
    """One epsilon of a run: what was asked, the most it may spend (fixed before data was read), and its
    releases; `choice`: how the clip was chosen, where it was chosen in the run."""
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
) -> dict:
    """The statement of a run. Epsilon, delta and mu are those of all parts together, by their upper bounds:
    they hold however the run chose its measurements. `found`: which of the schema's columns were found in the
    run."""
    caps = [event_from_dict(p["event"]) for p in parts]
    delta = parts[0]["asked"]["delta"]
    method = parts[0]["asked"]["method"]
    pure = pure_epsilon(caps) is not None
    epsilon, draws = epsilon_at(caps, delta), draws_of(parts)
    statement = {
        "format": FORMAT,
        "private": not seeded,
        "epsilon": epsilon,
        "delta": delta,
        "mu": combined_mu(caps),
        "unit": _unit(schema, unit),
        "bound": _bound(schema, unit, parts),
        "parts": [dict(p) for p in parts],
        "accountant": {
            "name": "pure sum" if pure else "Gaussian differential privacy",
            "method": method,
            "second": second if isinstance(second, str) else str(second),
        },
        "noise": {
            "gaussian": noise.SAMPLER,
            "laplace": noise.LAPLACE_SAMPLER,
            "grid": {"rows_per_unit": 1 / SCALE, "log2": 1 - SCALE.bit_length()},
            "log2_distance_per_draw": noise.LOG2_DISTANCE,
            "draws": draws,
            "adds_to_delta": min(1.0, added_delta(epsilon, draws)),
            "source": "a seed known to the caller: NOT PRIVATE" if seeded else "operating system, ChaCha20",
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
            SCHEMA_FOUND if found is not None and text == SCHEMA_PUBLIC else text for text in NOT_PROTECTED
        ],
        "ledger": dict(reference),
        "versions": versions(),
    }
    if only is not None:
        statement["part"] = only
    statement["notes"] = [*notes, *_remarks(epsilon, delta, reference, schema, seeded)]
    return statement


def _remarks(epsilon: float, delta: float, reference: Mapping, schema: Schema, seeded: bool) -> Iterator[str]:
    yield from weak_promise(epsilon, delta)
    if not reference["counts_other_runs"]:
        yield "no ledger was used: other runs on the same data are not counted"
    if KEYS_NOTE in (schema.provenance or ""):
        yield (
            "values of the schema were selected from private data, which cost an epsilon and delta of its "
            "own: see its provenance"
        )
    if schema.learnt:
        more = ", ..." if len(schema.learnt) > 3 else ""
        yield (
            f"{LEARNT_NOTE} ({', '.join(schema.learnt[:3])}{more}): unless that data is public, "
            "the guarantee does not hold for what they say"
        )
    if schema.dialect.trusts_writer:
        yield WRITER_NOTE
    if seeded:
        yield "the noise was drawn from a known seed: this run protects nobody"


def weak_promise(epsilon: float, delta: float) -> list[str]:
    """What a reader must know where epsilon or delta are so large that the promise says little."""
    texts = []
    if epsilon > WEAK_EPSILON:
        texts.append(
            f"epsilon {epsilon:.6g} is above {WEAK_EPSILON:g}: whoever suspects that a person is in the "
            "data may become all but certain of it; such a promise protects next to nothing"
        )
    if delta > WEAK_DELTA:
        texts.append(
            f"delta {delta:g} is above {WEAK_DELTA:g}: with that probability a person's rows may be "
            "published as they are; delta should be far below 1 / number of people"
        )
    return texts


def draws_of(parts: Sequence[Mapping]) -> int:
    """How many random numbers the releases of all parts took; of keys, whose number is private, at most."""
    return sum(int(r.get("draws", r["count"])) for p in parts for r in p["releases"])


def _unit(schema: Schema, kind: str) -> dict:
    unit = Unit.of(schema, kind)
    return {**unit.to_dict(), "adjacency": unit.adjacency}


def _bound(schema: Schema, unit: str, parts: Sequence[Mapping]) -> dict:
    clips = [p["clip"] for p in parts]
    if schema.user is None or unit == "event":
        return {"how": "each row weighs 1", "clip": clips}
    return {
        "how": "each row of a user with R rows weighs min(2^20, floor(clip 2^20 / R)) units of 2^-20 rows; "
        "histograms of users count each user at most cap times",
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
    """(relative name, path) of every file below a folder, links not followed, the statement itself left
    out."""
    for base, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(base, name)
            relative = path.relative_to(folder).as_posix()
            if relative != NAME:
                yield relative, path


def write(folder: str | os.PathLike, statement: Mapping, hashed: Mapping[str, str] | None = None) -> dict:
    """Write `privacy.json` with the hashes of all other files in the folder; returns what was written.
    `hashed`: hashes of files, by relative name, taken since they were written."""
    folder = Path(folder)
    whole, hashes = dict(statement), dict(hashed or {})
    files = dict(files_of(folder))
    left = [name for name in files if name not in hashes]
    with ThreadPoolExecutor(available()) as pool:
        hashes.update(zip(left, pool.map(file_hash, map(files.__getitem__, left))))
    whole["files"] = {name: hashes[name] for name in files}
    text = json.dumps(whole, indent=1, sort_keys=False, allow_nan=False) + "\n"
    try:
        with open(folder / NAME, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
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
    return [file_hash(path) for path in sorted([*folder.glob(NAME), *(p for p in inner if p.is_file())])]


def load_schema() -> dict:
    """The published JSON schema of a statement."""
    return json.loads(Path(__file__).with_name("statement.schema.json").read_text(encoding="utf-8"))


def problems(statement: Mapping) -> list[str]:
    """Everything that does not add up when the statement's numbers are worked out again; empty if all do.

    The statement may be anything: whatever its values do to the arithmetic is a problem of the statement.
    """
    texts: list[str] = []
    try:
        texts.extend(_problems(statement))
    except Exception as error:
        texts.append(f"the statement is malformed ({type(error).__name__}: {error})")
    return texts


def _problems(statement: Mapping) -> Iterator[str]:
    if statement["format"] != FORMAT:
        yield (f"unknown format {statement['format']!r}; this version of fastdp reads {FORMAT!r}")
        return
    delta, parts = statement["delta"], statement["parts"]
    caps = [event_from_dict(p["event"]) for p in parts]
    if not parts:
        yield "the statement has no parts"
        return
    epsilon = epsilon_at(caps, delta)
    if not _close(statement["epsilon"], epsilon):
        yield f"epsilon is stated as {statement['epsilon']!r}, but the parts give {epsilon!r}"
    if not _close(statement["mu"], combined_mu(caps)):
        yield f"mu is stated as {statement['mu']!r}, but the parts give {combined_mu(caps)!r}"
    for i, (entry, cap) in enumerate(zip(parts, caps, strict=True)):
        yield from (f"part {i}: {text}" for text in _part_problems(statement, entry, cap))
    if statement["bound"]["clip"] != [p["clip"] for p in parts]:
        yield "the bound and the parts state different clips"
    if statement["private"] is not ("NOT PRIVATE" not in statement["noise"]["source"]):
        yield "the statement claims privacy, but its noise came from a seed"
    if statement["private"]:
        yield from _sampler_problems(epsilon, delta, draws_of(parts), statement["noise"])


def _sampler_problems(epsilon: float, delta: float, draws: int, about: Mapping) -> Iterator[str]:
    added = added_delta(epsilon, draws)
    if added > (delta * SHARE if delta > 0 else PURE) * (1 + 1e-6):
        yield (
            f"the noise sampler's error adds {added:.3g} to delta at epsilon {epsilon:.6g} ({draws:,} "
            f"numbers drawn), which is not far below the stated delta {delta:g}: the guarantee does not hold"
        )
    if "draws" in about and about["draws"] != draws:
        yield (f"it states {about['draws']!r} drawn numbers, but the releases give {draws}")


def _part_problems(statement: Mapping, entry: Mapping, cap: Event) -> Iterator[str]:
    delta = statement["delta"]
    events = [event_from_dict(r["event"]) for r in entry["releases"]]
    if not part_budget(cap).admits(events):
        yield "its releases cost more than the part's bound"
    if entry["asked"]["delta"] != delta:
        yield "its delta differs from the statement's"
    if not epsilon_at([cap], delta) <= entry["asked"]["epsilon"] * (1 + 1e-9):
        yield "its bound exceeds the requested epsilon"
    if not _close(entry["epsilon"], epsilon_at([cap], delta)):
        yield "its epsilon does not follow from its bound"
    if not _close(entry["spent"]["mu"], combined_mu(events) if events else 0.0):
        yield "the stated cost differs from the cost of its releases"
    if not _whole(entry["clip"]) or (statement["unit"]["kind"] != "user" and entry["clip"] != 1):
        yield "the clip must be a whole number of rows, and 1 if no user is protected"
    if "clip_choice" in entry:
        yield from clip_rules.problems(entry["clip_choice"], entry["clip"], entry["releases"])
    for release in entry["releases"]:
        where = repr(release["label"])
        yield from (f"{where}: {text}" for text in _release_problems(release, entry["clip"]))


def _release_problems(release: Mapping, clip: int) -> Iterator[str]:
    event, law, kind = event_from_dict(release["event"]), release["law"], release["kind"]
    if type(event) is not LAWS.get((kind, law)):
        yield f"no run releases a {kind} with {law} noise that is charged as {event.law}"
        return
    if not _whole(release["count"]) and release["count"] != 0:
        yield "its number of answers must be a whole number"
        return
    if kind == "schema":
        if event != Gaussian(0.0):
            yield "a finished schema is computed from releases, so it must cost nothing"
        return
    if release.get("of") == "users":  # one row per user: one user is one row, whatever the clip
        clip = 1
    if "draws" in release and kind != "keys":
        yield "only a selection of keys may draw more numbers than it has answers"
    if kind != "select" and not 0 < release["sigma"] <= release.get("sigma_max", release["sigma"]) < math.inf:
        yield "its noise must be positive and finite, and the largest at least the smallest"
        return
    if kind in ("marginal", "filtered") and release["sensitivity"] != clip:
        yield "the sensitivity of a marginal must be the clip"
    if kind == "grid" and not (_whole(release["clip"]) and release["sensitivity"] == release["clip"]):
        yield "the sensitivity of a domain's cells must be their clip"
        return
    if kind in ("user_histogram", "keys"):
        bound = release["cap"] if law == "discrete-laplace" else math.sqrt(release["cap"])
        if kind == "keys":
            bound = 1.0 if _whole(release["cap"]) and release["cap"] <= MOST_KEYS_PER_USER else math.nan
        if not _whole(release["cap"]) or not _close(release["sensitivity"], bound):
            yield "its sensitivity does not follow from its cap"
            return
    norm2 = Fraction(1)
    if kind in ("distances", "guesses"):
        norm2 = Fraction(release["count"])
        if "weights" in release:
            weights = release["weights"]
            if len(weights) != release["count"] or not all(_whole(w) for w in weights):
                yield "it needs one weight >= 1 for each of its distances"
                return
            norm2 = Fraction(sum(w * w for w in weights), max(weights) ** 2)
        if not _close(release["sensitivity"], clip * math.sqrt(norm2)):
            yield f"the sensitivity of {kind} must be the clip times the norm of their weights"
            return
    if not release["sensitivity"] > 0:
        yield "its sensitivity must be positive"
        return
    # the type that LAWS asks for gives the distribution of the noise
    if isinstance(event, Gaussian | Threshold):
        squared = release["cap"] if kind == "user_histogram" else release["sensitivity"] ** 2
        if kind in ("distances", "guesses"):
            squared = norm2 * clip**2
        # sigma is the smallest over the rows; a row's scalar is at most 1, so its noise is at least this
        if Fraction(release["sigma"]) ** 2 * Fraction(event.mu) ** 2 < squared:
            yield "its noise is too small for its sensitivity and mu"
        if isinstance(event, Threshold):
            bar = least_threshold(release["sigma"], release["cap"], event.delta)
            if not release["threshold"] >= bar * (1 - 1e-9):
                yield "its threshold is too low for its noise and delta"
    elif isinstance(event, Pure):
        least = laplace_std(release["sensitivity"] / event.epsilon)
        if release["sigma"] < least * (1 - 1e-9):
            yield "its noise is too small for its sensitivity and epsilon"


def least_threshold(sigma: float, cap: int, delta: float) -> float:
    """Weighted users above which values may be kept: of a user who alone has t <= cap values and adds
    1 / sqrt(t) to each, one passes with probability 1 - Phi((T - 1 / sqrt(t)) / sigma)^t <= delta, for every
    t (docs/explain/keys.md)."""
    from scipy.special import ndtri

    t = np.arange(1, cap + 1)
    return float(np.max(1 / np.sqrt(t) - sigma * ndtri(-np.expm1(np.log1p(-delta) / t)) * (1 + 1e-9)))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _close(stated: float, computed: float) -> bool:
    return math.isfinite(stated) and abs(stated - computed) <= 1e-9 * abs(computed)
