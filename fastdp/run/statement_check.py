"""Recomputes the facts of a statement that follow from its other facts.

A statement is made of a few facts: each part's releases, the reference to the ledger, the schema,
and whether a seed fixed the noise. `privacy.statement.build` makes everything else of them. Here it
does so again, and every difference is a problem. `verify.UNPROVED` lists what remains the
statement's own word.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import is_whole
from ..mechanisms.with_users import group_column
from ..privacy import statement as statements
from ..privacy.accountant import event_from_dict
from ..privacy.budget import Budget, mu2
from ..privacy.clip import DOMAIN_KINDS, choice_bound
from ..privacy.ledger import LOCAL
from ..privacy.release_checks import CLOSE, MORE, VECTORS
from ..release.domainsteps import schema_bytes
from ..release.keyselect import MOST_KEYS
from ..release.marginal_plan import SESSION_QUERIES
from ..schema import Schema
from ..users.user_table import possible_facts
from .folder_check import schema_of

ASKED = 1 + 1e-4
"""A request may exceed the bound that it led to by this factor: noise is rounded up."""
TAKEN = ("parts", "mechanism", "public_data", "ledger", "versions", "notes", "files", "part")
"""Fields from which the others are computed, or which are compared separately."""
PROSE = {
    "unit.adjacency",
    "bound.how",
    "bound.enforced",
    "bound.clip_from",
    "accountant.name",
    "noise.gaussian",
    "noise.laplace",
    "noise.source",
    "not_protected",
}
"""Fields with fixed texts; versions of fastdp may word them differently."""


def same_build(statement: Mapping) -> bool:
    """Whether the statement names this program as the one that wrote it."""
    versions = statement.get("versions")
    return isinstance(versions, Mapping) and versions.get("build") == statements.build_hash()


def recomputed_problems(folder: Path, statement: Mapping) -> Iterator[str]:
    """Problems where the statement differs from the one that its parts, ledger reference and
    `schema.json` give. A joint folder of several parts has schemas in the parts' folders; of linked
    tables, its own is that of the first part."""
    yield from _reference_problems(statement)
    yield from _fact_problems(statement)
    read = [schema_of(place) for place in (folder, *statements.part_folders(folder))]
    schemas = [schema for schema in read if schema is not None]
    stated = statement["schema"]["sha256"]
    schema = next((s for s in schemas if s.digest() == stated), schemas[0] if schemas else None)
    if schema is None:
        return
    exact = same_build(statement)
    made = _made_again(statement, schema)
    yield from _differences(made, statement, exact, "")
    for i, (again, stated) in enumerate(zip(made["parts"], statement["parts"], strict=True)):
        yield from _differences(again, stated, exact, f"parts.{i}.")
    remarks = made["notes"]
    if exact and remarks and list(statement["notes"][-len(remarks) :]) != remarks:
        yield f"its notes must end with: {' / '.join(remarks)}"
    yield from _found_problems(statement, schema)
    yield from _series_problems(statement, schema)
    # Each part of linked tables is about another table: its own folder is checked for it.
    linked = "tables" in statement["mechanism"]
    parts = statement["parts"]
    # What a joint statement says of its mechanism is that of its last part.
    own = statement.get("part", 0 if linked else len(parts) - 1)
    of_own = _Counts(schema, _facts_of_users(statement))
    of_others = _Counts(schema, _facts_of_others(schema))
    for number, part in enumerate(parts):
        if linked and number != own:
            continue
        counts = of_own if number == own else of_others
        for release in part["releases"]:
            yield from (f"{release['label']!r}: {text}" for text in counts.problems(release))


def _series_problems(statement: Mapping, schema: Schema) -> Iterator[str]:
    """Problems where the run is not the last release that its series lists, or its schema does not
    read the rows of that period alone."""
    series = statement.get("series")
    if series is None:
        return
    own = series["releases"][-1]
    if own["period"] != series["period"] or own["events"] != [
        part["event"] for part in statement["parts"]
    ]:
        yield "the last release of its series is not this run"
    if schema.period is None or schema.period.only != series["period"]:
        yield "schema.json does not read the rows of the stated period alone"


def _made_again(statement: Mapping, schema: Schema) -> dict:
    """The statement, built anew from its own parts and the schema."""
    facts = [
        (p["asked"], p["clip"], p["releases"], p.get("clip_choice")) for p in statement["parts"]
    ]
    caps = [event_from_dict(p["event"]) for p in statement["parts"]]
    parts = [statements.part(cap, *rest) for cap, rest in zip(caps, facts)]
    return statements.build(
        parts,
        statement["ledger"],
        schema,
        unit="event" if statement["unit"]["kind"] == "event" else "user",
        second=statement["accountant"]["second"],
        seeded=statement["private"] is not True,
        found=statement["schema"].get("found"),
        series=statement.get("series"),
    )


def _differences(made: Any, stated: Any, exact: bool, where: str) -> Iterator[str]:
    """Texts on where two JSON values differ. `exact`: also in fixed texts, and in fields that only
    one has."""
    if isinstance(made, Mapping) and isinstance(stated, Mapping):
        for key in made if exact else [k for k in made if k in stated]:
            if (where == "" and key in TAKEN) or (where + key in PROSE and not exact):
                continue
            if key not in stated:
                yield f"it lacks {where}{key}"
            else:
                yield from _differences(made[key], stated[key], exact, f"{where}{key}.")
        known = {*made, *TAKEN} if where == "" else set(made)
        for key in [k for k in stated if k not in known] if exact else []:
            yield f"a run writes no {where}{key}"
    elif isinstance(made, list) and isinstance(stated, list):
        if len(made) != len(stated):
            yield f"{where[:-1]} has {len(stated)} entries but comes to {len(made)}"
        for i, (a, b) in enumerate(zip(made, stated)):
            yield from _differences(a, b, exact, f"{where}{i}.")
    elif not _same(made, stated):
        yield f"{where[:-1]} is stated as {stated!r} but comes to {made!r}"


def _same(made: Any, stated: Any) -> bool:
    """Figures may differ by the roundings of another machine's logarithms."""
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (made, stated))
    if numbers and isinstance(made, float):
        return math.isclose(made, stated, rel_tol=CLOSE)
    return type(made) is type(stated) and made == stated


def _reference_problems(statement: Mapping) -> Iterator[str]:
    """Problems where the reference to the ledger contradicts itself or the parts."""
    ledger = statement["ledger"]
    alone = ledger["counts_other_runs"] is False
    if not is_whole(ledger["seq"], 1):
        yield "ledger.seq must be the number of a record"
    if type(ledger["counts_other_runs"]) is not bool or alone != (ledger["dataset"] == LOCAL):
        yield "ledger.counts_other_runs contradicts ledger.dataset"
    if alone == ("budget" in ledger):
        yield (
            "ledger.counts_other_runs contradicts ledger.budget: only a ledger of many runs has a"
            " budget"
        )
    if "budget" in ledger:
        stated = ledger["budget"]
        opened = {k: v for k, v in stated.items() if k != "mu" or "epsilon" not in stated}
        yield from _differences(Budget.of(**opened).to_dict(), stated, True, "ledger.budget.")
        if not Budget.from_dict(stated).admits(
            [event_from_dict(p["event"]) for p in statement["parts"]]
        ):
            yield "ledger.budget does not cover this run"


UNITS = (64, 32, 16, 8, 4, 1)
"""What the offsets of sums inside bins, and the products of ranks, are parts of (`release.sums`)."""
QUERIES = [query.__name__ for query in SESSION_QUERIES]
"""Names of what a marginal may be asked for by."""
GRIDS: tuple[str | None, ...] = (
    None,
    "digits",
    "rows per user",
    "values not found",
    "kinds of text",
)
GRIDS += ("clock times", "sums", "steps", "ranks")
"""What the cells of a domain's release may be of; None: values of the column."""


def _fact_problems(statement: Mapping) -> Iterator[str]:
    """Problems of facts that are not computed from others, but bounded by them."""
    if not _texts(statement["notes"]) or not isinstance(statement["public_data"], list):
        yield "notes must be a list of texts, public_data a list of sources"
    for i, part in enumerate(statement["parts"]):
        asked = part["asked"]
        if asked["method"] in ("gdp", "pure") and not asked["epsilon"] <= part["epsilon"] * ASKED:
            yield (
                f"part {i} states a request for epsilon {asked['epsilon']!r}, which exceeds its"
                " bound"
            )
        for release in part["releases"]:
            if not _texts(release["attributes"]) or not isinstance(release["label"], str):
                yield (
                    f"part {i}: a release must have a label and a list of attributes, all of them"
                    " texts"
                )
            if release["kind"] in ("select", *VECTORS) and release["attributes"]:
                yield f"{release['label']!r}: a release of this kind has no attributes"
            if release["kind"] == "schema" and release["sensitivity"] != 0:
                yield (
                    f"{release['label']!r}: computed from other releases, so its sensitivity must"
                    " be 0"
                )
            if release["kind"] == "grid" and release.get("of") not in GRIDS:
                yield f"{release['label']!r}: domains are not found from cells of this kind"
            if release.get("query", QUERIES[0]) not in QUERIES:
                yield f"{release['label']!r}: no marginal is asked for by such a query"
            if not all(is_whole(size, 1) for size in release.get("recoded", {}).values()):
                yield f"{release['label']!r}: codes are merged to a whole number of codes"
            if release.get("unit", UNITS[0]) not in UNITS:
                yield f"{release['label']!r}: sums are not counted in such a unit"
            for name in ("cap", "candidates"):
                if not is_whole(release.get(name, 1), 1):
                    yield f"{release['label']!r}: {name} must be a whole number of at least 1"


def _found_problems(statement: Mapping, schema: Schema) -> Iterator[str]:
    """Problems of what is stated about finding the schema's columns."""
    found = statement["schema"].get("found")
    if found is None:
        return
    if found.get("max_rows", schema.max_rows_per_user) != schema.max_rows_per_user:
        yield "schema.json has a different bound on rows per user than the run found"
    part = statement["parts"][found["part"]]
    events = [event_from_dict(r["event"]) for r in part["releases"] if r["kind"] in DOMAIN_KINDS]
    allowed = found["share"] * mu2([event_from_dict(part["event"])])
    if not 0 < found["share"] < 1 or not mu2(events) <= allowed * MORE:
        yield "finding the schema's columns cost more than the stated share"
    counts: Counter[str] = Counter()
    for release in part["releases"]:
        if release["kind"] == "keys":
            counts[release["attributes"][0]] += release["count"]
    for name, count in counts.items():
        if count not in _key_counts(schema, name):
            yield f"{count} values of {name} were released, but schema.json has different ones"


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _facts_of_users(statement: Mapping) -> dict[str, int]:
    """The columns of the table about users, as the statement lists them, and their sizes."""
    users = statement["mechanism"].get("users")
    listed = users.get("facts") if isinstance(users, Mapping) else None
    if not isinstance(listed, Mapping):
        return {}
    return {str(name): size for name, size in listed.items() if is_whole(size, 1)}


def _facts_of_others(schema: Schema) -> dict[str, int | None]:
    """The columns that a table about users of another epsilon of the run may have, and their sizes.

    Each epsilon's noise decides which facts its table has, and a statement lists only its own. So the
    schema says which there may be. None, for any size: sums, means and features, whose bins are a
    matter of amounts; and a name that a column of the rows has too.

    What an attacker gains: a release of another epsilon may be stated with facts that its table did
    not have, or with another number of bins where the size is open. This hides no cost: charge, noise
    and sensitivity are checked without it. It shows no answers: a folder has only those of its own
    part (`verify` refuses answers without one), which is compared with the facts that it lists. And the
    joint folder and all its parts must list the same releases. What is left is `noise.draws`, and so
    the sampler's share of delta, by a false number of bins.
    """
    domain = schema.modelled
    order = [name for name in schema.order_columns[:1] if name in domain]
    features = [one.name for one in schema.user_features]
    sizes = possible_facts(domain, order, schema.user_amounts, choice_bound(schema), features)
    return {name: None if name in domain else size for name, size in sizes.items()}


class _Counts:
    """How many answers releases have by `schema.json`; what is asked for each of very many releases is
    worked out once. `facts`: the columns of the table about users; None where their size is open."""

    def __init__(self, schema: Schema, facts: Mapping[str, int | None]):
        self.schema = schema
        of_rows: dict[str, int | None] = dict(schema.modelled)
        # As many groups as the run chose.
        self.sizes = {
            False: of_rows | {group_column(schema, False): None},
            True: {**of_rows, **facts, group_column(schema, True): None},
        }

    @cached_property
    def schema_length(self) -> int:
        return len(schema_bytes(self.schema))

    def problems(self, release: Mapping) -> Iterator[str]:
        """Problems where a release has another number of answers than `schema.json` gives it."""
        kind = release["kind"]
        count = release["count"]
        about = release["attributes"]
        if kind == "schema" and count != self.schema_length:
            yield "schema.json has a different length than the released schema"
        if kind == "keys" and release.get("draws") != MOST_KEYS:
            yield (
                f"a selection of keys draws up to {MOST_KEYS} numbers, but the statement gives "
                f"{release.get('draws')!r}"
            )
        if kind != "marginal":
            return
        if len(set(about)) < len(about):
            yield "it names a column twice"
            return
        known = self.sizes[release.get("of") == "users"]
        if not all(name in known for name in about):
            yield "it names columns that schema.json does not have"
        elif "query" not in release:
            recoded = release.get("recoded", {})
            sizes = [recoded.get(name, known[name]) for name in about]
            cells = math.prod(size for size in sizes if size is not None)
            fits = count > 0 and count % cells == 0 if None in sizes else count == cells
            if not fits:
                yield f"it has {count} answers, but its columns have {cells} cells"


def _key_counts(schema: Schema, name: str) -> Sequence[int]:
    """How many values may have been released of a column that has these values. One value may stand
    for all others, and a column of which none was released has one."""
    return schema.fields[name].released_counts()
