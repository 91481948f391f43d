"""What `verify` reads of a released folder besides its statement and answers: numbers, schema, rows
and model.

The folder may hold anything, also files made to harm. JSON is read strictly (finite numbers, each
name once, a limit of bytes). Parquet is read batch by batch within `parquet_limits`. Models are
read by `model.array_file`, which allocates no more than the file's length. Links are not followed.
Every problem is returned as a text, never raised.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import cast

import numpy as np

from .._util.lazy import pa
from ..answers.measurements_file import RELEASED
from ..codec.possible import MAX_MASK
from ..codec.violations import count_violations
from ..errors import RunError
from ..model.graphical_model import Model
from ..privacy.clip import DOMAIN_KINDS
from ..privacy.unit import Unit
from ..release.domainsteps import schema_bytes
from ..release.sums import finished
from ..release.user_vectors import KIND
from ..schema import Schema
from ..schema.constraints import columns_of
from ..schema.derived import Derived
from ..schema.kinds.numeric import Numeric
from .number_table import NUMBERS, VECTORS, number_problems
from .parquet_limits import batches, bounded_file
from .strict_json import read_json, within_floats

MOST_NUMBER_ROWS = 1 << 22
"""Rows of a table of numbers, or of the vectors behind them."""
MOST_CODES = 1 << 20
"""Rows are checked against the schema's constraints if each column has at most so many codes."""
MOST_COMBINATIONS = 1 << 26
"""And if all constraints together have at most so many combinations of codes: about 0.1 GB and some
seconds."""
LARGE_CONSTRAINT = (
    "constraint {number} is over more codes than a folder of unknown origin is given memory for, "
    "so the rows were not checked against it"
)


def number_tables(folder: Path) -> dict[str, pa.Table]:
    """The tables of numbers that were asked for, those that are there. RunError if one is larger
    than a run writes."""
    tables = {}
    for name in (NUMBERS, VECTORS):
        path = folder / f"{name}{RELEASED}"
        if path.is_symlink() or path.exists():
            with bounded_file(path, []) as file:
                columns = file.schema_arrow.names
            with bounded_file(path, columns) as file:
                if file.metadata.num_rows > MOST_NUMBER_ROWS:
                    raise RunError(f"{path.name} has more rows than a run writes")
                kept = list(batches(file, columns, path.name))
                tables[name] = _plain_texts(pa.Table.from_batches(kept, file.schema_arrow))
    return tables


def asked_problems(folder: Path, statement: Mapping, part: int, entry: Mapping | None) -> list[str]:
    """What is wrong with the numbers that were asked for: they are computed again from the released
    vectors, which are releases of this part. With the run's ledger `entry`, also where a vector was
    not drawn."""
    tables = number_tables(folder)
    about = statement["mechanism"].get("numbers")
    if about is None and not tables:
        unasked = [r for r in statement["parts"][part]["releases"] if r["kind"] == KIND]
        return [f"no number was asked for that takes the vector {r['label']!r}" for r in unasked]
    schema = Schema.from_dict(read_json(folder / "schema.json", within_floats))
    drawn: dict[str, set[str]] | None = None
    if entry is not None:
        drawn = {}
        for step in entry["steps"]:
            if step["part"] == part:
                hashes = {answer["sha256"] for answer in step["answers"]}
                drawn.setdefault(step["label"], set()).update(hashes)
    return number_problems(about, schema, tables, statement["parts"][part]["releases"], drawn)


def _plain_texts(table: pa.Table) -> pa.Table:
    kinds = [
        (f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in table.schema
    ]
    return table.cast(pa.schema(kinds))


def guarded(what: str, check: Callable[[], Iterable[str]]) -> list[str]:
    """The problems that a check reports; if the check itself fails on what it reads, that failure
    is one problem."""
    texts: list[str] = []
    try:
        texts.extend(check())
    except Exception as error:  # a hostile folder may raise anything: it is a problem of the folder
        texts.append(f"{what} cannot be checked ({type(error).__name__}: {error})")
    return texts


def schema_of(folder: Path) -> Schema | None:
    """The folder's `schema.json`; None if it is not a plain file."""
    path = folder / "schema.json"
    return Schema.load(path.absolute()) if path.is_file() and not path.is_symlink() else None


def row_files(folder: Path) -> list[Path]:
    """The files that may hold the folder's synthetic rows."""
    return [folder / "synthetic.parquet", *sorted((folder / "synthetic").glob("*.parquet"))]


def schema_problems(folder: Path, statement: Mapping) -> Iterator[str]:
    """Problems where `schema.json` is not the schema of the statement, or protects another unit."""

    path = folder / "schema.json"
    if not path.is_file() and not path.is_symlink():
        return
    read_json(path, within_floats)  # refuses links, oversized files and numbers that are not finite
    schema = Schema.load(path.absolute())
    if schema.digest() != statement["schema"]["sha256"]:
        yield "schema.json is not the schema of the statement: its digest differs"
    stated = statement["unit"]
    if any(stated.get(k, v) != v for k, v in Unit.of(schema, stated["kind"]).to_dict().items()):
        yield "schema.json does not allow the statement's unit"


def found_problems(folder: Path, statement: Mapping, entry: Mapping | None) -> Iterator[str]:
    """Problems where the statement's entry on private columns does not agree with the listed
    releases. With the run's ledger `entry`, also where the hash of `schema.json` is not that of the
    finished schema."""
    releases = [(i, r) for i, p in enumerate(statement["parts"]) for r in p["releases"]]
    listed = [(i, r) for i, r in releases if r["kind"] == "schema"]
    found = statement["schema"].get("found")
    if found is None:
        if any(r["kind"] in DOMAIN_KINDS for _, r in releases):
            yield "domains were released, but the statement does not name the columns"
        return
    if [(i, r["attributes"]) for i, r in listed] != [(found["part"], found["columns"])]:
        yield "the statement names different columns than the release of the finished schema"
    measured = {
        r["attributes"][0]
        for _, r in releases
        if r["kind"] in ("grid", "keys") and r.get("of") != "rows per user"
    }
    schema = schema_of(folder)
    columns = set(found["columns"])
    rest = {n for n in columns - measured if schema is None or not _has_public_means(schema, n)}
    if not measured <= columns or rest:
        yield "the columns stated as found differ from those with a release"
    if entry is None or not listed or schema is None:
        return
    part = listed[0][0]
    label = listed[0][1]["label"]
    stored = [s["answers"] for s in entry["steps"] if (s["part"], s["label"]) == (part, label)]
    digest = hashlib.sha256(schema_bytes(schema)).hexdigest()
    if [a["sha256"] for answers in stored for a in answers] != [digest]:
        yield "ledger: schema.json is not the finished schema that the run released"


def _has_public_means(schema: Schema, name: str) -> bool:
    """Whether a column has the means inside its bins that follow from the schema alone: those of a
    column whose means were to be found, but of which nothing was asked."""
    found = schema.columns.get(name)
    if found is None or not found.binned:
        return False
    column = cast(Numeric, found)
    if not isinstance(column.means, tuple):
        return False
    return finished(column, np.full(column.base, np.nan), None, None).means == column.means


def constraint_problems(folder: Path, notes: list[str]) -> Iterator[str]:
    """Problems where synthetic rows break the constraints of `schema.json`. Constraints over more
    codes than `verify` works with are not checked, and `notes` say so."""

    schema = schema_of(folder)
    if schema is None or not schema.constraints:
        return
    kept = checked_constraints(schema)
    notes += [
        LARGE_CONSTRAINT.format(number=number + 1)
        for number in range(len(schema.constraints))
        if number not in kept
    ]
    if not kept:
        return
    plain = schema.to_dict()
    plain["constraints"] = [plain["constraints"][number] for number in kept]
    schema = Schema.from_dict(plain)
    totals = dict.fromkeys(range(len(kept)), 0)
    named = {name for constraint in schema.constraints for name in columns_of(schema, constraint)}
    wanted = sorted({schema.columns[name].source for name in named})
    for part in row_files(folder):
        if part.is_symlink() or part.parent.is_symlink() or not part.is_file():
            continue
        try:
            with bounded_file(part, wanted) as file:
                names = [name for name in file.schema_arrow.names if name in wanted]
                for batch in batches(file, names, part.name):
                    for number, count in count_violations(schema, batch).items():
                        totals[number] += count
        except RunError as error:
            yield f"{error}: its rows were not checked"
    for number, count in totals.items():
        if count:
            text = schema.constraints[number].text
            yield f"{count:,} rows break constraint {kept[number] + 1} ({text})"


def checked_constraints(schema: Schema) -> list[int]:
    """The numbers of the constraints that can be compiled within MOST_CODES and MOST_COMBINATIONS,
    by the schema's own sizes and before anything is allocated. All `order` constraints count as
    one, since they are compiled together."""
    of = [columns_of(schema, constraint) for constraint in schema.constraints]
    ordered = [number for number, c in enumerate(schema.constraints) if c.order]
    work = {number: _combinations(schema, of[number]) for number in range(len(of))}
    together = _pairs(schema, {name for number in ordered for name in of[number]})
    work |= dict.fromkeys(ordered, together)
    kept: list[int] = []
    total = 0
    for number in sorted(work, key=lambda n: (work[n], n)):
        total += work[number] if number not in ordered or not set(ordered) & set(kept) else 0
        if total <= MOST_COMBINATIONS:
            kept.append(number)
    return sorted(kept)


def _combinations(schema: Schema, names: Iterable[str]) -> int:
    """Combinations of codes of these columns, and of the parts of their fields."""
    sizes = [schema.domain[name] for name in names]
    if any(size > MOST_CODES for size in sizes):
        return MOST_COMBINATIONS + 1
    fields = {f.name: f for f in schema.fields.values() if isinstance(f, Derived)}
    parts = [[p.size for p in f.parts] for f in fields.values() if _names_of(f) & set(names)]
    return math.prod(sizes) + sum(math.prod(own) for own in parts)


def _pairs(schema: Schema, names: Iterable[str]) -> int:
    """The same of an order, which is compiled pair by pair after a cubic search for chains."""
    names = sorted(names)
    if (chains := len(names) ** 3) > MOST_COMBINATIONS:
        return chains
    pairs = [_combinations(schema, pair) for pair in combinations(names, 2)]
    large = any(schema.domain[name] > MOST_CODES for name in names)
    return chains + sum(n for n in pairs if n <= MAX_MASK or large)  # larger ones have no mask


def _names_of(field: Derived) -> set[str]:
    return {part.name for part in field.parts}


def model_problems(folder: Path, statement: Mapping, releases: Sequence[Mapping]) -> Iterator[str]:
    """Problems of `model.fastdp`: it cannot be read, or it differs from the statement in what it
    says of its noise. Or it has marginals that no release measured and that the statement does not
    attribute to public data.
    """

    path = folder / "model.fastdp"
    if not path.is_file() and not path.is_symlink():
        return
    if path.is_symlink():
        raise RunError("model.fastdp is a link")
    model = Model.load(path)
    measured = {frozenset(r["attributes"]) for r in releases if r["kind"] == "marginal"}
    if statement.get("public_data"):
        used = statement.get("mechanism", {}).get("public", {})
        measured |= {frozenset(clique) for clique in used.get("prior_only", [])}
    for clique in model.errors:
        if frozenset(clique) not in measured:
            yield (
                f"model.fastdp names a measurement of {', '.join(clique)}, but there is no such"
                " release"
            )
    if model.private is not (statement["private"] is True):
        yield "model.fastdp and the statement disagree about whether a known seed fixed the noise"
