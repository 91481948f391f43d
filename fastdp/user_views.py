"""Views of users: tables that are counted in place of the private one.

In a view, one user's rows depend on that user's rows alone, so that a guarantee about rows of the
private table holds for rows of the view. A view says what is counted; `engines` makes it. It holds
public facts only. Anything random is a hash of the user's id value and the content of that user's
rows. Proof: docs/explain/user-releases.md.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from typing import ClassVar

from .domain import Domain
from .errors import SchemaError, UsageError, is_whole
from .userkeys import ascending, lower_edges

FACTS = ("constant", "first", "last", "active", "distinct", "sum", "mean", "value")
"""The kinds of facts that `UserFacts` can hold."""
MOST_VALUE = 1 << 31
"""The largest number that a code counts as in a sum: 2^31 rows of it fit in 64 bits."""


@dataclass(frozen=True, eq=False)
class View:
    """Base of all views. `edges`: groups of users by their number of rows R, edges[g] <= R <
    edges[g + 1], the last one open. `name`: the column that holds the group."""

    edges: tuple[int, ...]
    name: str = "rows per user"

    per_user: ClassVar[bool] = False
    """Whether the view has one row per user, so that one user changes one row whatever the clip."""

    def __post_init__(self):
        object.__setattr__(self, "edges", lower_edges(self.edges, 1))
        if self.edges[0] != 1:
            raise UsageError(
                "edges: the edges of a view must start at 1, so that every user with rows is "
                "in a group"
            )

    def domain(self, domain: Domain) -> Domain:
        """The view's columns and their numbers of codes."""
        raise NotImplementedError

    def digest(self) -> str:
        """SHA-256 of what the view says, the same in every process."""
        about = [type(self).__name__, *([f.name, getattr(self, f.name)] for f in fields(self))]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()

    def _with_group(self, columns: dict[str, int]) -> Domain:
        if self.name in columns:
            raise SchemaError(
                f"the view's column {self.name!r} is also a column of the schema; give it "
                "another name"
            )
        return Domain({**columns, self.name: len(self.edges)})


@dataclass(frozen=True, eq=False)
class UserTable(View):
    """One row per user: the most common code of each of `columns` among the user's rows, and the
    group of its number of rows. Ties go by a hash of the user's id value and the code."""

    columns: tuple[str, ...] = ()

    per_user: ClassVar[bool] = True

    def domain(self, domain: Domain) -> Domain:
        return self._with_group({name: domain[name] for name in domain.check(self.columns)})


@dataclass(frozen=True, eq=False)
class RowGroups(View):
    """The private rows, each with the group of its user's number of rows as a further column."""

    def domain(self, domain: Domain) -> Domain:
        return self._with_group(dict(domain))


@dataclass(frozen=True, eq=False)
class UserFacts(View):
    """One row per user: the group of its number of rows, and `facts` about its rows, each (name,
    kind, column, numbers, edges).

    constant: the most common code of the column, as in `UserTable`. first, last: the period of the
    user's least and largest code; `numbers` is (parts,), the codes being divided into so many equal
    periods. active: how many periods it has rows in. distinct: how many codes it has. sum, mean:
    the sum over its rows of numbers[code], a whole number for each code; mean is the sum divided by
    the rows, rounded down. value: what `column`, a text in the language of numbers, says of the
    codes of the user's rows (`numbers.user_features`). The last five are binned: bin b holds
    edges[b - 1] <= x < edges[b]. All of it is a function of one user's rows (and id value), so
    adding a user adds one row to the table and changes no other."""

    facts: tuple[tuple[str, str, str, tuple[int, ...], tuple[int, ...]], ...] = ()

    per_user: ClassVar[bool] = True

    def __post_init__(self):
        super().__post_init__()
        facts = tuple(
            (str(name), str(kind), str(column), tuple(numbers), tuple(edges))
            for name, kind, column, numbers, edges in self.facts
        )
        names = [self.name, *(fact[0] for fact in facts)]
        if len(set(names)) < len(names):
            raise UsageError(f"facts: a name is given twice in {names!r}")
        for name, kind, _, numbers, edges in facts:
            if kind not in FACTS:
                raise UsageError(f"fact {name!r}: kind {kind!r} is not one of {', '.join(FACTS)}")
            ascending(f"fact {name!r}: edges", edges, -(1 << 62))
            if kind in ("first", "last", "active") and len(numbers) != 1:
                raise UsageError(f"fact {name!r}: numbers must be the number of periods")
            if not all(is_whole(x, -MOST_VALUE, MOST_VALUE) for x in numbers):
                raise UsageError(f"fact {name!r}: numbers must be whole, at most {MOST_VALUE}")
        object.__setattr__(
            self,
            "facts",
            tuple(
                (name, kind, column, tuple(map(int, numbers)), tuple(map(int, edges)))
                for name, kind, column, numbers, edges in facts
            ),
        )

    def domain(self, domain: Domain) -> Domain:
        sizes = {}
        for name, kind, column, numbers, edges in self.facts:
            if kind == "value":
                sizes[name] = len(edges) + 1
                continue
            size = domain[domain.check((column,))[0]]
            if kind in ("sum", "mean") and len(numbers) != size:
                raise UsageError(f"fact {name!r}: expected one number for each of {size} codes")
            if kind in ("first", "last", "active") and not 1 <= numbers[0] <= size:
                raise UsageError(f"fact {name!r}: expected between 1 and {size} periods")
            if kind == "constant":
                sizes[name] = size
            elif kind in ("first", "last"):
                sizes[name] = numbers[0]
            else:
                sizes[name] = len(edges) + 1
        return self._with_group(sizes)


VIEWS = (UserTable, RowGroups, UserFacts)
"""The only classes of views that a session counts, and no subclasses of them: their sensitivity is
proved."""
