"""The data of the report page, as plain data: `collect` aggregates tables and facts of runs."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import UsageError
from ..metrics.inputs import KNOWN_USERS, as_arrow, coded
from ..metrics.scores import several
from ..tables.drafting import draft
from ..tables.table import Table
from . import collect as collecting, people_section, quotes, runs as running, workload
from .score_list import normalise

ReportData = dict[str, Any]
"""Plain data of a page, which `json.dumps` accepts; see `collect` for its keys."""


def collect(
    truth: Any,
    synthetic: Any,
    schema: Any = None,
    scores: Mapping | Sequence[Mapping] | None = None,
    run: Any = None,
    *,
    title: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> ReportData:
    """Aggregate the tables into the data of one page.

    truth: a table or source handed over as the truth, or None for the page without it. synthetic:
    one table or source, or a mapping from name to table: several are compared on one page. scores:
    results of `fastdp.evaluate`, one dict or one per table. run: one or one per table, each a run
    or a dict of its facts (`privacy`, `measurements`, `model`, all optional). about: facts of the
    release (`release_facts`).

    Keys: `title, about, with_truth, truth, tables, scores, columns, pairs, worst, users, people,
    verdict, limits, quotes, numbers, original, causes, of_users, runs, workload`. Lists named
    `tables`, `runs` and `workload` follow the order of the synthetic tables. Without the truth no
    key holds anything that depends on it. Seconds are never shown: they depend on the data.
    """
    coded_tables = _coded(truth, synthetic, schema)
    schema, real, tables, labels = coded_tables
    runs = _aligned(run, len(tables), "run")
    scores = _aligned(None if real is None else scores, len(tables), "scores")
    sizes = {n: len(names) for n, (names, _) in labels.items()}
    facts = [quotes.facts_of(r, schema) for r in runs]
    asked = [_numbers(r) for r in runs]
    page = {
        "title": title or _title(schema, real is not None),
        "about": None if about is None else dict(about),
        "with_truth": real is not None,
        "truth": None if real is None else collecting.size(real),
        "tables": [{"name": name, **collecting.size(table)} for name, table in tables.items()],
        "scores": normalise(scores),
        "people": people_section.collect(real, [*tables.values()], schema, runs),
        "verdict": [quotes.verdict_of(r, own).to_dict() for r, own in zip(runs, facts)],
        "numbers": asked,
        "original": [(s or {}).get("original") for s in scores],
        "causes": [(s or {}).get("causes") for s in scores],
        "of_users": [(s or {}).get("users", {}).get("columns", {}) for s in scores],
        "runs": [running.facts(r, sizes) for r in runs],
        "workload": [
            workload.collect(real, table, running.statement_of(r), sizes)
            for table, r in zip(tables.values(), runs)
        ],
    }
    if real is None:
        return page | _with_intervals(coded_tables, runs, facts, asked)
    true = quotes.Truth(real, None if truth is real else as_arrow(truth, "truth"))
    return page | _with_truth(coded_tables, real, true, runs, facts, asked)


class _Coded(NamedTuple):
    """The tables of a page in codes. `real`: the truth, if it was handed over. `labels`: texts of the
    codes of each column that all tables have, and whether they have an order."""

    schema: Any
    real: Table | None
    tables: dict[str, Table]
    labels: dict[str, tuple[list[str], bool]]


def _coded(truth: Any, synthetic: Any, schema: Any) -> _Coded:
    named = _named(synthetic)
    schema = _schema(schema, truth, *named.values())
    labels = {name: _labels(column) for name, column in schema.columns.items()}
    tables = {name: coded(source, schema, name, users=True) for name, source in named.items()}
    real = None if truth is None else coded(truth, schema, "truth", users=True)
    present = [t.codes.keys() for t in [real, *tables.values()] if t is not None]
    labels = {n: label for n, label in labels.items() if all(n in codes for codes in present)}
    if not labels:
        raise UsageError(
            "report: the tables have no common column in the schema; check the column names"
        )
    return _Coded(schema, real, tables, labels)


def _with_truth(
    coded_tables: _Coded,
    real: Table,
    true: quotes.Truth,
    runs: Sequence[Any],
    facts: Sequence[Any],
    asked: Sequence[list[dict] | None],
) -> ReportData:
    """The keys that compare with the truth."""
    schema, _, named, labels = coded_tables
    tables = [*named.values()]
    pairs, worst = collecting.pairs(real, tables, labels)
    order = _roles(runs)[0].get("order")
    return {
        "columns": collecting.columns(real, tables, labels, []),
        "pairs": pairs,
        "worst": worst,
        "users": collecting.users(real, tables, labels, schema.user, None, order),
        "limits": [[] for _ in runs],
        "quotes": [quotes.quotes(own, labels, a or (), true) for own, a in zip(facts, asked)],
    }


def _with_intervals(
    coded_tables: _Coded,
    runs: Sequence[Any],
    facts: Sequence[Any],
    asked: Sequence[list[dict] | None],
) -> ReportData:
    """The same keys from what the runs released, with intervals in place of the truth."""
    schema, _, named, labels = coded_tables
    tables = [*named.values()]
    spans = [quotes.Intervals(own) for own in facts]
    order = _roles(runs)[0].get("order")
    return {
        "columns": collecting.columns(None, tables, labels, spans),
        "pairs": None,
        "worst": [],
        "users": collecting.users(None, tables, labels, schema.user, _habits(runs), order),
        "limits": [quotes.limits(r, own, schema.user) for r, own in zip(runs, facts)],
        "quotes": [quotes.quotes(own, labels, a or (), None) for own, a in zip(facts, asked)],
    }


def _numbers(run: Any) -> list[dict] | None:
    """The numbers that a run was asked for, a row each; None if it was asked for none."""
    found = (running.get(run, "tables") or {}).get("numbers") if run is not None else None
    return None if found is None else found.to_pylist()


def _roles(runs: Sequence[Any]) -> list[Mapping[str, Any]]:
    """What the statement of each run says of users."""
    mechanisms = [(running.statement_of(r) or {}).get("mechanism") for r in runs]
    return [m.get("users") or {} if isinstance(m, Mapping) else {} for m in mechanisms]


def _habits(runs: Sequence[Any]) -> list[str]:
    """The columns in which synthetic users of all runs behave as true ones, as far as was
    released."""
    kept = [(*r.get("constant", ()), *r.get("repeated", ())) for r in _roles(runs)]
    return [name for name in kept[0] if all(name in names for names in kept)]


def _named(synthetic: Any) -> dict[str, Any]:
    """The synthetic tables by name. A mapping from names to columns is one table, as everywhere in
    `evaluate`."""
    if isinstance(synthetic, Mapping) and not synthetic:
        raise UsageError("report: give at least one synthetic table")
    if several(synthetic):
        return {str(k): v for k, v in synthetic.items()}
    return {"synthetic": synthetic}


def _schema(schema: Any, *sources: Any) -> Any:
    """`schema` if given, else the schema of a `fastdp.Table` among the sources, else one drafted
    from the first source (its values, not its bounds)."""
    own = [s.schema for s in sources if hasattr(s, "codes") and hasattr(s, "schema")]
    if schema is not None or own:
        return own[0] if schema is None else schema
    first = as_arrow(next(s for s in sources if s is not None), "report")
    user = next((name for name in KNOWN_USERS if name in first.column_names), None)
    return draft(first, user=user).schema.with_constraints(())


def _aligned(value: Any, n: int, what: str) -> list[Any]:
    """A list of n entries, one per table, from None, a single entry, or a list of n entries."""
    if value is None:
        return [None] * n
    given = list(value) if isinstance(value, Sequence) else [value]
    if len(given) != n:
        raise UsageError(f"report: expected {n} {what}, one per synthetic table, got {len(given)}")
    return given


def _labels(column: Any) -> tuple[list[str], bool]:
    """A text per code, and whether the codes have an order that a reader expects to see."""
    names = [_interval(str(n)) for n in column.labels()]
    return names, column.ordered or collecting.tells_time(column.name)


def _interval(label: str) -> str:
    """The label of a half-open interval in words; any other label unchanged."""
    edges = re.fullmatch(r"[\[(](\S+), (\S+)\)", label)
    if edges is None:
        return label
    low, high = edges.groups()
    if low == "-inf":
        return f"under {high}"
    if high == "inf":
        return f"{low} and up"
    return f"{low} to {high}"


def _title(schema: Any, with_truth: bool) -> str:
    name = getattr(schema, "name", None)
    what = "synthetic data against the truth" if with_truth else "about this synthetic table"
    return f"{name}: {what}" if name else what.capitalize()
