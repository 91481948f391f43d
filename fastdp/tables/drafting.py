"""Drafts a first schema from data, to be edited by hand. It has a guess of each column's kind and
of the columns that may hold user ids. Lines that were learnt from the data are marked.

A schema must be public. A draft from private data is not private. Every line marked `LEARNT`
(lists, ranges, bins) depends on the rows, and must be replaced by public knowledge before anything
is released.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from .._util.files import as_path
from ..codec.possible import compiled_constraints
from ..errors import SchemaError, did_you_mean
from ..schema import Schema, toml_write
from ..schema.dialect import Dialect
from ..schema.fields import parse_field
from ..schema.within_bin import after, unit_of
from .drafted_columns import ID, WHO, Candidate, ColumnLook
from .relations import Columns, propose
from .sources.source import source_of
from .whole_table import decimal_commas, either_mark, other_encoding, read_whole

EVEN = (
    "Bins are even with round edges. If the data is public, draft it as public: bins then have"
    " equal counts."
)


@dataclass(frozen=True)
class Draft:
    """A drafted schema; `save` writes it with marks on the lines that were learnt from the data,
    `notes` list what else the user has to do."""

    schema: Schema
    notes: tuple[str, ...] = ()
    users: tuple[Candidate, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """TOML, with comments."""
        head = [
            (
                "DRAFTED FROM DATA. A schema is public: replace every line marked LEARNT by public"
                " knowledge (a"
            ),
            (
                "code book, a price list, a map) and delete the mark. What a marked line says is"
                " not protected,"
            ),
            "and the privacy statement of a run names it.",
            *self.notes,
        ]
        user = self._user_lines() if self.users and self.schema.user is None else ()
        return toml_write.document(_without_ends(self.schema), head, before_columns=user)

    def _user_lines(self) -> list[str]:
        """The table [user] with the best candidate, as lines of a comment that the reader may use."""
        best = self.users[0]
        return [
            (
                "Whose rows are they? All rows of one user are protected together; without [user]"
                " each row is"
            ),
            (
                "protected by itself, and somebody with many rows less. max_rows is a public bound"
                " on the rows"
            ),
            (
                "of one user; rows beyond it are left out. How many of them count fully is chosen"
                " in the run."
            ),
            "[user]",
            f"column = {toml_write.quoted(best.name)}",
            f"max_rows = {best.usual}    # LEARNT: 99 % of the values have at most so many rows",
            *([f"Then delete [columns.{best.name}]."] if best.name in self.schema.columns else ()),
        ]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write TOML with comments, or JSON without, by the ending of the path."""
        place = as_path(path, "a schema file")
        if place.suffix == ".toml":
            place.write_text(self.text(), encoding="utf-8")
        else:
            self.schema.save(place)


NO_ROWS = ": the data has no rows, so nothing says which values its columns have; write the schema by hand"
UNREADABLE = (
    ": no row can be read. Each line needs as many values as the first line has names: look at the"
    ' first lines, and try dialect={"delimiter": ";"} or dialect={"encoding": "latin-1"}, or give the'
    " names where the file has none (docs/guide/text-files.md)"
)


def draft(
    source: Any,
    *,
    user: str | None = None,
    bins: int = 20,
    drop: Sequence[str] = (),
    dialect: Dialect | Mapping[str, Any] | None = None,
    public: bool = False,
) -> Draft:
    """Draft a first schema for data, to be edited by hand. It contains values and ranges of the
    data.

    Texts with few distinct values and booleans become lists. Whole numbers become a range, a list
    (also of equal steps, such as 50, 60 to 100) or about `bins` bins with round edges and open
    ends. Other numbers become bins, with `digits` if all values have few decimals. Frequent values
    of numbers in bins get codes of their own. Dates and times become their parts, clock times
    written as HHMM hours and minutes. Identifiers, free text, columns of almost only nulls and
    columns of unknown kinds are left out. Columns that follow from others, and the order of dates,
    become constraints.

    Parameters
    ----------
    source : any source that `fastdp.read` takes
        Public data; or private data, where every line marked LEARNT is replaced before anything is released.
    user : str, optional
        The column of user ids.
    bins : int
        About how many bins numeric columns get.
    drop : sequence of str
        Columns to leave out.
    dialect : Dialect or mapping, optional
        The dialect of text files; it becomes part of the schema. An encoding other than UTF-8 is
        guessed if it is None, and whether numbers have decimal commas if it does not say so.
    public : bool
        The data may be looked at by everyone: no line is marked LEARNT, and bins have equal counts.
    """
    table, style, notes = _read(source, dialect)
    given = source_of(source)
    unread = [part.unread for part in given.parts(style) if part.unread] if given.again else []
    notes += [f"{text[0].upper()}{text[1:]}." for text in unread[:1]]
    names = table.column_names
    for name in (*drop, *(() if user is None else (user,))):
        if name not in names:
            what = "user=" if name == user else "drop="
            also = "".join(f"; {text}" for text in unread[:1])
            near = did_you_mean(name, names)
            raise SchemaError(f"{what}: the data has no column {name!r}{near}{also}")
    looks = _Looks()
    for name in names:
        if name not in drop:
            looks.add(ColumnLook(name, table.column(name), bins, public, names), user)
    if not looks.entries:
        why = ": " + "; ".join(f"{name!r}: {reason}" for name, reason in looks.left_out.items())
        if not len(table):
            why = UNREADABLE if list(given.paths()) else NO_ROWS
        raise SchemaError(f"the draft would have no column{why}")
    notes += looks.notes
    columns = Columns(looks.values, looks.entries)
    proposed = propose(columns)
    origin = f"drafted from {'public ' if public else ''}data"
    document: dict[str, Any] = {"provenance": origin, "columns": columns.entries}
    if user is not None:
        document["user"] = {"column": user}
    if style.to_plain():
        document["dialect"] = style.to_plain()
    schema, refused = _constrained(document, proposed)
    if proposed:
        texts = [c.text for c in schema.constraints]
        notes.append(f"Proposed as constraints; keep those that are rules: {'; '.join(texts)}.")
    notes += [f"Not proposed as a constraint: {text}." for text in refused]
    if not public:
        schema = replace(schema, learnt=toml_write.learnt_by_draft(schema.to_plain()))
        if any(entry["kind"] == "numeric" for entry in looks.entries.values()):
            notes.append(EVEN)
    return _with_notes(schema, user, looks.users, looks.left_out, notes)


def _read(source: Any, dialect: Any) -> tuple[pa.Table, Dialect, list[str]]:
    """(the rows, the dialect in which they were read, notes on what of it was guessed)."""
    notes = []
    style = Dialect() if dialect is None else Dialect.from_plain(dialect)
    said = isinstance(dialect, Mapping) and "encoding" in dialect
    encoding = None if said or style.encoding != "utf-8" else other_encoding(source)
    if encoding is not None:
        style = replace(style, encoding=encoding)
        notes.append(
            f"The data is not UTF-8 and was read as {encoding}: see [dialect], and check the texts."
        )
    table = read_whole(source, style)
    if style.decimal is None:
        if decimal_commas(table):
            style = replace(style, decimal=",")
            table = read_whole(source, style)
            notes.append("Numbers have decimal commas and were read so: see [dialect].")
        elif either_mark(source, style):
            style = replace(style, decimal=".")
    return table, style, notes


@dataclass
class _Looks:
    """What the columns look like, one after another.

    `entries`: the tables of those that the draft has; `values`: their values. `left_out`: why others
    are not in it. `users`: columns that may hold user ids; the stated one comes first.
    """

    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    users: list[Candidate] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, look: ColumnLook, user: str | None) -> None:
        """Draft a column, unless it holds the user ids or nothing that can be a column."""
        if look.name == user:
            self.users.insert(0, look.candidate())
            return
        if not look.problem and look.may_be_user:
            self.users.append(look.candidate())
        nameless = "" if look.name else "a column without a name"
        if why := look.problem or look.why or nameless:
            self.left_out[look.name] = why
            return
        entry = look.entry()
        try:
            parse_field(look.name, entry)
        except SchemaError as error:
            self.left_out[look.name] = str(error)
            return
        self.entries[look.name] = entry
        self.values[look.name] = look.series
        self.notes += look.notes


def _without_ends(schema: Schema) -> dict[str, Any]:
    """The document of the schema, to be edited by hand: edges at which only the bin of a single
    value ends are left out, as `atoms` implies them."""
    plain = schema.to_plain()
    for entry in plain["columns"].values():
        if atoms := entry.get("atoms"):
            whole = entry.get("whole", False)
            unit = unit_of(entry["dtype"], whole, entry.get("digits"))
            ends = {after(float(atom), entry["dtype"], unit) for atom in atoms}
            entry["edges"] = [e for e in entry["edges"] if float(e) not in ends or e in atoms]
    return plain


def _constrained(
    document: Mapping[str, Any], proposed: Sequence[dict[str, Any]]
) -> tuple[Schema, list[str]]:
    """The schema with the proposed constraints, less those that it cannot have, with the
    reasons."""
    kept: list[dict[str, Any]] = []
    refused = []
    for some in ([proposed], [[c] for c in proposed]):
        for more in some:
            schema = Schema.from_dict({**document, "constraints": []})
            try:
                compiled_constraints(schema.with_constraints([*kept, *more]))
                kept += more
            except SchemaError as error:
                refused += [str(error)] if len(some) > 1 or len(proposed) == 1 else []
        if len(kept) == len(proposed):
            break
    return schema.with_constraints(kept), list(dict.fromkeys(refused))


def _with_notes(
    schema: Schema,
    user: str | None,
    users: list[Candidate],
    left_out: dict[str, str],
    more: list[str],
) -> Draft:
    """The draft with its notes: what was left out, `more`, and who the users are or may be.
    Candidates come in the order in which they are likely to be user ids."""
    notes = [*(f"Left out: {name!r}, {why}." for name, why in left_out.items()), *more]
    ranked = sorted(
        users,
        key=lambda u: (
            u.name != user,
            not WHO.search(u.name),
            not ID.search(u.name),
            u.name not in left_out,  # of so few values that it is a column of its own
            -u.rows / u.values,
        ),
    )
    if user is None and ranked:
        notes.append(
            f"Possible user column: {' or '.join(map(str, ranked[:3]))}; see [user] below."
        )
    elif user is None:
        alone = "No column looks like a user id, so each row counts as a separate user."
        notes.append(
            f"{alone} If a person may have several rows, name the column of their ids as the user."
        )
    else:
        notes.append(
            f"Users are the values of {user!r}. A public bound on the rows of one user goes to"
            f" max_rows; 99 % of them have at most {ranked[0].usual:,} here."
        )
    return Draft(schema, tuple(notes), tuple(ranked), dict(left_out))
