"""The public schema: the columns of a table, what their codes mean, and which column holds the user
ids.

A schema is written by people (TOML or JSON, see docs/reference/schema.md) or drafted from public
data. A run finds what is missing in private columns within its budget. Everything in a schema may
be released.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from .._util.html import text_html
from .._util.texttable import plural
from ..domain import Domain
from ..errors import SchemaError, UsageError
from . import constraints as public_knowledge, document, importers, ordering, sdv, value_lists
from .amounts import Amount
from .builtin import nist
from .columns import Column
from .constraints import Constraint
from .derived import shifts_per_day
from .dialect import Dialect
from .document import FORMAT, Output
from .fields import Field
from .ordering import UserFeature
from .pending import Pending
from .periods import Period


@dataclass(frozen=True, eq=False, repr=False)
class Schema:
    """Public description of a table; frozen. Two schemas are equal if their `digest()` is equal.
    The dialect is not part of the digest, since it says how files are written and not what codes
    mean.

    `fields` are the source columns by name, in the order of the document. `columns` are the code
    columns that they are encoded as (several for a derived field). `domain` gives their numbers of
    codes. `null_user` says what happens to a row whose user id is null: `drop` leaves it out, `own`
    makes it a separate user. `order` names the fields by which the rows of a user are in order,
    most significant first; `user_amounts` names number columns whose sum per user matters, and
    `user_features` are further values of a user by which synthetic users are chosen.
    `dialect` is the dialect of text files. `constraints` say which rows can
    occur (docs/guide/constraints.md); `modelled` is the domain without the columns that are
    computed from others when rows are written. `learnt` names the lines that a draft took from data
    and nobody has replaced since. `exact` names the fields that are also read as exact numbers,
    beside their codes; like the dialect it is not part of the digest. `period`: the unit of privacy
    is one user in one period of time, so that the id of a row is the pair of both.
    """

    fields: Mapping[str, Field]
    user: str | None = None
    max_rows_per_user: int | None = None
    null_user: str = "drop"
    user_dtype: str | None = None
    name: str = ""
    provenance: str = ""
    outputs: Mapping[str, Output] = field(default_factory=dict)
    dialect: Dialect = field(default_factory=Dialect)
    constraints: tuple[Constraint, ...] = ()
    learnt: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()
    user_amounts: tuple[str, ...] = ()
    user_features: tuple[UserFeature, ...] = ()
    period: Period | None = None

    def __post_init__(self) -> None:
        if not self.fields:
            raise SchemaError("columns: the schema has none; give at least one under [columns]")
        if self.null_user not in ("drop", "own"):
            raise SchemaError(
                f"user, field 'null': expected 'drop' or 'own', got {self.null_user!r}"
            )
        bound = self.max_rows_per_user
        if bound is not None:
            if isinstance(bound, bool) or not isinstance(bound, int) or not 1 <= bound < 1 << 31:
                raise SchemaError(
                    f"user, field 'max_rows': expected a whole number >= 1, got {bound!r}"
                )
            if self.user is None:
                raise SchemaError("user, field 'max_rows': it needs a user column")
        if self.user is not None:
            clash = next((f.name for f in self.fields.values() if f.source == self.user), None)
            if clash is not None:
                raise SchemaError(
                    f"column {clash!r}, field 'source': it is also the user column; remove one"
                )
        ordering.check(self.fields, self.user, self.order)
        ordering.check_amounts(self.fields, self.user, self.user_amounts)
        ordering.check_features(self.fields, self.user, self.user_features)
        for extra in self.outputs.values():
            if extra.of not in self.columns or shifts_per_day(self.columns[extra.of].base) is None:
                shifts = "(7 times a divisor of 24 codes: the equal shifts of a week)"
                where = f"output {extra.name!r}, field 'from'"
                raise SchemaError(f"{where}: there is no shift column {extra.of!r} {shifts}")
        for name, column in self.columns.items():
            rank = column.rank
            leader = None if rank is None else self.columns.get(rank.like)
            if rank is not None and (leader is None or not leader.leads_ranks):
                raise SchemaError(
                    f"column {name!r}, field 'rank': {rank.like!r} must be a numeric "
                    "column without a rank"
                )
        if self.constraints:
            public_knowledge.check(self)
        if self.period is not None:
            if self.user is None:
                raise SchemaError("unit: a user-period needs a user column; give one under [user]")
            object.__setattr__(self, "period", self.period.checked())
        for name in self.exact:
            if name not in self.fields:
                raise SchemaError(f"exact: the schema has no column {name!r}")

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The code columns by attribute name, in the schema's order."""
        columns: dict[str, Column] = {}
        for item in self.fields.values():
            for column in item.parts:
                if column.name in columns:
                    raise SchemaError(
                        f"column {item.name!r}: the name {column.name!r} is used twice"
                    )
                columns[column.name] = column
        return columns

    @cached_property
    def amounts(self) -> dict[str, Amount]:
        """How the fields in `exact` are read as exact numbers."""
        found = {name: self.fields[name].amount() for name in self.exact}
        return {name: amount for name, amount in found.items() if amount is not None}

    @cached_property
    def order_columns(self) -> tuple[str, ...]:
        """The code columns by which the rows of a user are in order, most significant first."""
        return tuple(c for name in self.order for c in self.fields[name].order_columns())

    @cached_property
    def pending(self) -> dict[str, Pending]:
        """The columns with `domain = "private"`. While there are any, the schema has no domain."""
        return {name: item for name, item in self.fields.items() if isinstance(item, Pending)}

    @cached_property
    def measured(self) -> tuple[str, ...]:
        """The columns whose means within bins the run has to find (`means = "private"`)."""
        return tuple(name for name, c in self.columns.items() if "means" in c.to_find)

    @cached_property
    def atomic(self) -> tuple[str, ...]:
        """The columns whose frequent values the run has to find (`atoms = "private"`)."""
        found = {**self.pending, **self.columns}
        return tuple(name for name, c in found.items() if "atoms" in c.to_find)

    @property
    def unfinished(self) -> tuple[str, ...]:
        """The columns of which a run has to find something before it reads its table."""
        return tuple(dict.fromkeys((*self.pending, *self.measured, *self.atomic)))

    def finished(
        self,
        entries: Mapping[str, Mapping[str, Any]],
        provenance: str = "",
        max_rows: int | None = None,
    ) -> Schema:
        """The schema with these documents in place of its private columns; max_rows: the bound on
        rows per user, if the run found it too."""
        plain = self.to_plain()
        if max_rows is not None:
            plain["user"] = {**plain["user"], "max_rows": max_rows}
        plain["columns"] = {
            name: entries.get(name, entry) for name, entry in plain["columns"].items()
        }
        if texts := [t for t in (self.provenance, provenance) if t]:
            plain["provenance"] = "; ".join(texts)
        return Schema.from_dict(plain)

    def with_values(self, values: Mapping[str, Any] | None) -> Schema:
        """The schema in which private columns have these public lists; by column, a list or a file
        (`value_lists`)."""
        if lists := value_lists.as_lists(values):
            entries = value_lists.public_entries(self.pending, lists)
            return self.finished(entries, value_lists.described(lists))
        return self

    def stand_in(self) -> Schema:
        """The schema with private columns replaced by stand-ins of a likely number of codes. A run
        with private domains is planned with it."""
        if self.pending:
            return self.finished({n: c.stand_in() for n, c in self.pending.items()})
        return self

    @cached_property
    def domain(self) -> Domain:
        """Number of codes of every column, including its null and overflow codes if it has them."""
        return Domain({name: column.size for name, column in self.columns.items()})

    @cached_property
    def modelled(self) -> Domain:
        """The domain of a model: all columns except those that are computed from others when rows
        are written."""
        derived = public_knowledge.not_modelled(self)
        return Domain({name: size for name, size in self.domain.items() if name not in derived})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickling and copying pass on the document only, not what encoding has cached in this
        object."""
        return Schema.from_dict, (self.to_plain(),)

    def __repr__(self) -> str:
        whose = "each row its own user"
        if self.user is not None:
            whose = f"user {self.user!r}"
            if self.max_rows_per_user is not None:
                whose += f" with at most {self.max_rows_per_user} rows"
        return f"Schema({self.name!r}, {plural(len(self.columns), 'column')}, {whose})"

    def select(self, names: Iterable[str]) -> Schema:
        """The schema with only the fields of these code columns, in the schema's order. Constraints
        that name other columns are left out, and so are features where a field is."""
        owners = {
            getattr(self.columns[n], "of", None) or n for n in self.domain.check(tuple(names))
        }
        fields = {k: f for k, f in self.fields.items() if k in owners}
        kept = {c.name for f in fields.values() for c in f.parts}
        outputs = {k: o for k, o in self.outputs.items() if o.of in kept}
        held = [c for c in self.constraints if set(public_knowledge.columns_of(self, c)) <= kept]
        order = self.order if set(self.order) <= set(fields) else ()
        exact = tuple(name for name in self.exact if name in fields)
        amounts = tuple(name for name in self.user_amounts if name in fields)
        features = self.user_features if len(fields) == len(self.fields) else ()
        changed: dict[str, Any] = {
            "fields": fields,
            "outputs": outputs,
            "exact": exact,
            "user_amounts": amounts,
            "user_features": features,
        }
        return replace(self, constraints=tuple(held), order=order, **changed)

    def without_users(self) -> Schema:
        """The same columns for a table without user ids: nothing is said of users or of the order
        of their rows."""
        none: dict[str, Any] = {"user": None, "max_rows_per_user": None, "user_dtype": None}
        return replace(self, **none, order=(), user_amounts=(), user_features=(), period=None)

    def with_constraints(self, constraints: Iterable[Constraint | Mapping[str, Any]]) -> Schema:
        """The same schema with these constraints in place of its own; a mapping has the keys of the
        document."""
        learnt = tuple(name for name in self.learnt if not name.startswith("constraint "))
        return replace(self, constraints=public_knowledge.parse(list(constraints)), learnt=learnt)

    def with_dialect(self, dialect: Dialect | Mapping[str, Any] | None) -> Schema:
        """The same schema with another dialect of text files; None leaves the dialect unchanged."""
        return self if dialect is None else replace(self, dialect=Dialect.from_plain(dialect))

    def with_exact(self, names: Iterable[str]) -> Schema:
        """The same schema, by which these fields are also read as exact numbers."""
        exact = tuple(sorted(set(names)))
        for name in exact:
            if name in self.fields and self.fields[name].amount() is None:
                raise SchemaError(f"exact: {name!r} is not a column of numbers, dates or times")
        return self if exact == self.exact else replace(self, exact=exact)

    def with_period(self, period: Period | None) -> Schema:
        """The same schema, whose unit of privacy is one user in one period; None: one user."""
        return replace(self, period=period)

    def of_users(self) -> dict[str, str]:
        """What is declared of columns' values in the rows of one user: constant, repeated or
        free."""
        return {
            name: column.user for name, column in self.columns.items() if column.user is not None
        }

    def describe(self) -> str:
        """A readable table of the columns: name, kind, number of codes, source type, policies."""
        lines = [repr(self)]
        width = max(len(n) for n in self.columns)
        for name, c in self.columns.items():
            if isinstance(c, Pending):
                lines.append(f"  {name:<{width}}  {c.wanted:<11} private domain  {c.dtype}")
                continue
            policies = f"null: {_policy(c.null)}, overflow: {_policy(c.overflow)}"
            lines.append(
                f"  {name:<{width}}  {c.kind:<11} {c.size:>7} codes  {c.dtype:<8} {policies}"
            )
        lines += [f"  constraint {i}: {c.text}" for i, c in enumerate(self.constraints, 1)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain data of the schema, fit for JSON; `from_dict` gives the same schema back."""
        return _json_safe(self.to_plain())

    def to_plain(self) -> dict[str, Any]:
        """The schema as its TOML document."""
        plain: dict[str, Any] = {"fastdp": FORMAT, "name": self.name}
        if self.provenance:
            plain["provenance"] = self.provenance
        if self.user is not None:
            plain["user"] = {"column": self.user, "null": self.null_user}
            if self.max_rows_per_user is not None:
                plain["user"]["max_rows"] = self.max_rows_per_user
            if self.user_dtype is not None:
                plain["user"]["dtype"] = self.user_dtype
            if self.order:
                plain["user"]["order"] = self.order[0] if len(self.order) == 1 else list(self.order)
            if self.user_amounts:
                plain["user"]["amounts"] = list(self.user_amounts)
            if self.user_features:
                plain["user"]["features"] = {f.name: f.to_plain() for f in self.user_features}
        if self.period is not None:
            plain["unit"] = self.period.to_plain()
        if self.learnt:
            plain["learnt"] = list(self.learnt)
        if dialect := self.dialect.to_plain():
            plain["dialect"] = dialect
        plain["columns"] = {name: item.to_plain() for name, item in self.fields.items()}
        if self.outputs:
            plain["outputs"] = {name: o.to_plain() for name, o in self.outputs.items()}
        if self.constraints:
            plain["constraints"] = [c.to_plain() for c in self.constraints]
        if self.exact:
            plain["exact"] = list(self.exact)
        return plain

    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON without the dialect; it depends on the order of
        columns and on notes."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        plain = self.to_dict()
        plain.pop("dialect", None)
        plain.pop("exact", None)
        plain["order"] = list(self.fields)
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Schema:
        """The schema that a TOML or JSON document describes; SchemaError names column and field."""
        return cls(**document.parse(plain))

    def _repr_html_(self) -> str:
        """For notebooks: the columns and what their codes mean."""
        return text_html(self.describe())

    @classmethod
    def of(cls, source: Schema | str | os.PathLike[str]) -> Schema:
        """A Schema unchanged, or one loaded from a path or by a built-in name."""
        if isinstance(source, Schema):
            return source
        if isinstance(source, str | os.PathLike):
            return cls.load(os.fspath(source))
        hint = "; pass its .schema" if isinstance(getattr(source, "schema", None), Schema) else ""
        got = type(source).__name__ + hint
        raise UsageError(f"schema: expected a Schema, a path or a built-in name, got {got}")

    @classmethod
    def load(cls, source: str | Path) -> Schema:
        """A schema from a .toml or .json file, or a built-in one by its bare name."""
        return document.load_as(cls.from_dict, source)

    def save(self, path: str | Path) -> None:
        """Write TOML or JSON by the ending of the path."""
        document.save(self.to_plain(), self.to_dict(), path)

    @classmethod
    def from_deid2(cls, path: str | Path) -> Schema:
        """From a parameters.json of the NIST DeID2 challenge, any of its three sprints."""
        return cls.from_dict(nist.from_deid2(path))

    @classmethod
    def from_domain(cls, domain: Mapping[str, int] | str | Path, user: str | None = None) -> Schema:
        """For data that is already coded 0..n-1: from a mapping of columns to n, or mbi's
        domain.json."""
        return cls.from_dict(importers.from_domain(domain, user=user))

    @classmethod
    def from_codebook(
        cls, form: str, path: str | Path, *, table: str | None = None, user: str | None = None
    ) -> Schema:
        """The schema of a public code book: a Frictionless package or table schema
        ("frictionless"), CSVW metadata ("csvw") or DDI-Codebook XML ("ddi"). `table` names one of
        several tables, `user` the column of user ids. The run finds what the book leaves open."""
        from .codebooks import from_codebook

        return cls.from_dict(from_codebook(form, path, table=table, user=user))

    @classmethod
    def from_sdv(
        cls,
        metadata: Any,
        *,
        table: str | None = None,
        user: str | None = None,
        columns: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Schema:
        """From SDV's metadata: its object, a mapping or a .json file. See docs/guide/porting.md.

        table: the name of the table, if the metadata has several. user: the column of ids of the
        people to protect; default: the metadata's sequence key. columns: documents of columns about
        which more is public than the metadata says. The values and bounds of other columns are left
        to the run (`domain = "private"`).
        """
        return cls.from_dict(sdv.from_sdv(metadata, table=table, user=user, columns=columns or {}))


def _policy(policy: Any) -> str:
    return f"as {policy.value!r}" if policy.action == "value" else policy.action


def _json_safe(value: Any) -> Any:
    """The value with infinities as text, since JSON has no infinities."""
    if isinstance(value, dict):
        return {k: _json_safe(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_json_safe(v) for v in value]
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return value
