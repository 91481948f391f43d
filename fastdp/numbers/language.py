"""The language of numbers: `share of users where rows > 1`, `sum(amount) by month`.

Grammar (keywords in any case; `[x]` is optional, `{x}` repeated, `|` separates alternatives):

    number     = head ["per user"] {"where" condition | "by" group {"," group}}
    head       = "count" ["of" ("rows" | "users")]
               | "share" "of" ("rows" | "users")
               | ("sum" | "mean" | "median") "(" value ")"
               | "quantile" "(" value "," decimal ")"
    group      = period | ("first" | "last") "(" period ")"
    period     = column | part "(" column ")"
    condition  = both {"or" both}
    both       = negation {"and" negation}
    negation   = "not" negation | comparison
    comparison = value [("=" | "!=" | "<" | "<=" | ">" | ">=") value
                 | ["not"] "in" "(" constant {"," constant} ")" | "is" ["not"] "null"]
    value      = product {("+" | "-") product}
    product    = factor {"*" factor}
    factor     = "-" factor | constant | "rows" | function | column | "(" condition ")"
    function   = ("sum" | "min" | "max" | "first" | "last" | "distinct") "(" value ")"
               | "any" "(" condition ")"
    constant   = decimal ["days" | "hours" | "minutes" | "seconds" | "weeks"]
               | "'" text "'" | "true" | "false"
    column     = name | "`" any text "`"

Functions inside a number aggregate the rows of one user. A number is of users where it says `per
user` or `of users`, else of rows. `number_text` writes a number in this grammar.
"""

from __future__ import annotations

import re
from decimal import Decimal

from msgspec import Struct

from ..errors import UsageError, nearest
from .number_nodes import (
    DURATIONS,
    MAX_LENGTH,
    RESERVED,
    Aggregate,
    Arithmetic,
    Column,
    Comparison,
    Constant,
    Logical,
    Membership,
    Missing,
    Node,
    Not,
    Number,
    error,
)

MAX_DEPTH = 40
"""Parentheses, functions and `not` inside each other; Python's stack holds many more."""
HEADS = ("count", "share", "sum", "mean", "median", "quantile")
EXTREME = "one person decides it; ask for a quantile, as in quantile(sum(x), 0.99) per user"
ELSEWHERE = {
    "avg": "write mean(...)",
    "average": "write mean(...)",
    "max": EXTREME,
    "min": EXTREME,
    "top": "count by groups, as in 'count of rows by country', and take the largest",
    "select": "write the number alone, as in 'sum(x) where y > 1 by z'",
    "between": "write 'x >= low and x < high'",
    "group": "write 'by'",
    "having": "write conditions on users after 'where', as in 'count of users where rows > 1'",
    "distinct": "write 'count of users', or 'count of users where distinct(x) >= 2'",
    "unique": "write 'count of users', or 'count of users where distinct(x) >= 2'",
}
"""Words of other languages where a number, a comparison or its end is expected, and what to write here."""
FUNCTIONS = ("sum", "min", "max", "first", "last", "distinct", "any")


class _Token(Struct, frozen=True):
    kind: str
    text: str
    at: int


_TOKENS = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d{1,2})?)
    |(?P<name>[^\W\d]\w*)
    |(?P<quoted>`[^`]+`)
    |(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<sign><=|>=|!=|<>|==|[-=<>+*(),\[\]])""",
    re.VERBOSE,
)


def _tokens(text: str) -> list[_Token]:
    """The words, numbers and signs of a text, then its end."""
    out = []
    at = 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is None:
            quote = text[at] in "'\"`"
            why = f"{text[at]!r} has no meaning here; a column with such a name stands in backticks"
            why = "the quote is not closed" if quote else why
            raise error(text, at, f"{why}; the grammar is in docs/reference/numbers.md")
        kind = str(found.lastgroup)
        if kind != "space":
            out.append(_Token(kind, found.group(), at))
        at = found.end()
    return [*out, _Token("end", "", len(text))]


class _Parser:
    """Reads a number from left to right, with a method for each rule of the grammar. `is_word` and
    `is_sign` look ahead; `word` and `sign` take a token, or fail if it is none of these."""

    def __init__(self, text: str):
        self.text = text
        self.tokens = _tokens(text)
        self.place = 0
        self.depth = 0

    @property
    def next(self) -> _Token:
        return self.tokens[self.place]

    def fail(self, expected: str, token: _Token | None = None) -> UsageError:
        token = token or self.next
        got = f"got {token.text!r}" if token.text else "the text ends"
        place = self.tokens.index(token)
        before = self.tokens[place - 1] if place else _Token("end", "", 0)
        names = before.kind == token.kind == "name"
        if names and not {before.text.lower(), token.text.lower()} & RESERVED:
            name = f"{before.text} {token.text}"
            got += f"; if a column is called {name!r}, put it in backticks: `{name}`"
        return error(self.text, token.at, f"expected {expected}, {got}")

    def is_word(self, *words: str, ahead: int = 0) -> bool:
        place = min(self.place + ahead, len(self.tokens) - 1)
        token = self.tokens[place]
        return token.kind == "name" and token.text.lower() in words

    def is_sign(self, *signs: str, ahead: int = 0) -> bool:
        place = min(self.place + ahead, len(self.tokens) - 1)
        token = self.tokens[place]
        return token.kind == "sign" and token.text in signs

    def take(self) -> _Token:
        token = self.next
        self.place += token.kind != "end"
        return token

    def word(self, *words: str) -> str:
        if not self.is_word(*words):
            raise self.fail(" or ".join(repr(w) for w in words))
        return self.take().text.lower()

    def sign(self, *signs: str) -> str:
        if not self.is_sign(*signs):
            raise self.fail(" or ".join(repr(s) for s in signs))
        return self.take().text

    def number(self) -> Number:
        aggregate, of, value, q = self.head()
        if self.is_word("per") or (of == "rows" and value is not None and self.is_word("of")):
            self.per_user(aggregate)
            of = "users"
        where: Node | None = None
        by: list[tuple[str, str]] = []
        while self.next.kind != "end":
            if self.is_word("where") and where is None:
                self.take()
                where = self.condition()
            elif self.is_word("by") and not by:
                self.take()
                by = self.groups()
            elif how := self.elsewhere():
                expected = f"expected 'where', 'by' or the end, got {self.next.text!r}{how}"
                raise error(self.text, self.next.at, expected)
            else:
                raise self.fail("'where', 'by' or the end")
        if aggregate == "share" and where is None:
            raise self.fail("'where' and a condition: a share needs one")
        names = tuple(n for n, _ in by)
        picks = tuple(p for _, p in by)
        return Number(aggregate, of, value, q, where, names, picks, self.text)

    def elsewhere(self) -> str:
        """What to write in place of a word of another language, for the end of an error."""
        word = self.next.text.lower()
        if word == "(" and self.tokens[max(self.place - 1, 0)].text.lower() == "count":
            return "; write 'count of rows', or 'count of users'"
        return f"; {ELSEWHERE[word]}" if word in ELSEWHERE else ""

    def head(self) -> tuple[str, str, Node | None, Decimal | None]:
        if not self.is_word(*HEADS):
            expected = "'" + "', '".join(HEADS) + "' at the start"
            near = nearest(self.next.text, HEADS)
            how = f"; did you mean {near!r}?" if near else ""
            got = repr(self.next.text) if self.next.text else "nothing"
            how = self.elsewhere() or how
            raise error(self.text, self.next.at, f"expected {expected}, got {got}{how}")
        head = self.word(*HEADS)
        if head == "count" and not self.is_word("of"):
            return head, "rows", None, None
        if head in ("count", "share"):
            self.word("of")
            return head, self.word("rows", "users"), None, None
        self.sign("(")
        value = self.value()
        q = Decimal("0.5") if head == "median" else None
        if head == "quantile":
            self.sign(",")
            q = self.quantile()
        self.sign(")")
        return ("quantile" if q is not None else head), "rows", value, q

    def quantile(self) -> Decimal:
        token = self.next
        if token.kind != "number" or not 0 < Decimal(token.text) < 1:
            raise self.fail("a number between 0 and 1, such as 0.9")
        return Decimal(self.take().text)

    def per_user(self, aggregate: str) -> None:
        if aggregate in ("count", "share"):
            raise self.fail(f"'where', 'by' or the end: write '{aggregate} of users'")
        if self.word("per", "of") == "per":
            self.word("user")
        else:
            self.word("users")

    def groups(self) -> list[tuple[str, str]]:
        out = [self.group()]
        while self.is_sign(","):
            self.take()
            out.append(self.group())
        if len({name for name, _ in out}) < len(out):
            raise self.fail("each column once after 'by'")
        return out

    def group(self) -> tuple[str, str]:
        if self.is_word("first", "last") and self.is_sign("(", ahead=1):
            pick = self.word("first", "last")
            self.sign("(")
            name = self.group_name()
            self.sign(")")
            return name, pick
        return self.group_name(), ""

    def group_name(self) -> str:
        """The name of a column, or PART(COLUMN) such as month(date), which is a name as well: the
        schema says which of its columns that is."""
        if self.next.kind != "name" or not self.is_sign("(", ahead=1):
            return self.column().name
        part = self.take().text
        self.sign("(")
        name = self.column().name
        self.sign(")")
        return f"{part.lower()}({name})"

    def column(self) -> Column:
        token = self.next
        if token.kind == "quoted":
            return Column(self.take().text[1:-1], token.at)
        if token.kind != "name" or token.text.lower() in RESERVED:
            raise self.fail("the name of a column (between backticks if it is a keyword)")
        return Column(self.take().text, token.at)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise error(self.text, self.next.at, f"more than {MAX_DEPTH} levels; simplify it")

    def condition(self) -> Node:
        return self.joined("or")

    def joined(self, op: str) -> Node:
        at = self.next.at
        inner = self.negation if op == "and" else (lambda: self.joined("and"))
        items = [inner()]
        while self.is_word(op):
            self.take()
            items.append(inner())
        return items[0] if len(items) == 1 else Logical(op, tuple(items), at)

    def negation(self) -> Node:
        if not self.is_word("not"):
            return self.comparison()
        at = self.take().at
        self.deeper()
        item = Not(self.negation(), at)
        self.depth -= 1
        return item

    def comparison(self) -> Node:
        left = self.value()
        at = self.next.at
        if self.is_sign("=", "==", "!=", "<>", "<", "<=", ">", ">="):
            sign = self.take().text
            op = {"==": "=", "<>": "!="}.get(sign, sign)
            return Comparison(op, left, self.value(), at)
        if self.is_word("is"):
            self.take()
            negated = self.is_word("not") and bool(self.take())
            self.word("null")
            return Not(Missing(left, at), at) if negated else Missing(left, at)
        if self.is_word("in") or (self.is_word("not") and self.is_word("in", ahead=1)):
            negated = self.word("not", "in") == "not"
            if negated:
                self.word("in")
            inside = Membership(left, self.constants(), at)
            return Not(inside, at) if negated else inside
        return left

    def constants(self) -> tuple[Constant, ...]:
        closing = {"(": ")", "[": "]"}[self.sign("(", "[")]
        out = [self.constant()]
        while self.is_sign(","):
            self.take()
            out.append(self.constant())
        self.sign(closing)
        return tuple(out)

    def constant(self) -> Constant:
        at = self.next.at
        minus = self.is_sign("-") and bool(self.take())
        token = self.next
        if token.kind == "number":
            self.take()
            unit = ""
            if self.is_word(*DURATIONS, *(name[:-1] for name in DURATIONS)):
                unit = self.take().text.lower().rstrip("s") + "s"
            value = Decimal(token.text)
            return Constant(-value if minus else value, unit, at)
        if token.kind == "text" and not minus:
            self.take()
            quote = token.text[0]
            return Constant(token.text[1:-1].replace(quote * 2, quote), "", at)
        if self.is_word("true", "false") and not minus:
            return Constant(self.take().text.lower(), "", at)
        raise self.fail("a number, or a text between quotes")

    def value(self) -> Node:
        left = self.product()
        while self.is_sign("+", "-"):
            token = self.take()
            left = Arithmetic(token.text, left, self.product(), token.at)
        return left

    def product(self) -> Node:
        left = self.factor()
        while self.is_sign("*"):
            at = self.take().at
            left = Arithmetic("*", left, self.factor(), at)
        return left

    def factor(self) -> Node:
        token = self.next
        following = self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        if token.kind in ("number", "text") or self.is_word("true", "false"):
            return self.constant()
        if token.text == "-" and following.kind == "number":
            return self.constant()
        self.deeper()
        if self.is_sign("-"):
            self.take()
            out: Node = Arithmetic("*", Constant(Decimal(-1)), self.factor(), token.at)
        elif self.is_sign("("):
            self.take()
            out = self.condition()
            self.sign(")")
        elif self.is_word("rows"):
            self.take()
            out = Aggregate("rows", None, token.at)
        elif self.is_word(*FUNCTIONS) and self.is_sign("(", ahead=1):
            out = self.function()
        elif token.kind == "name" and self.is_sign("(", ahead=1):
            raise self.fail("one of the functions rows, " + ", ".join(FUNCTIONS))
        else:
            out = self.column()
        self.depth -= 1
        return out

    def function(self) -> Node:
        token = self.take()
        name = token.text.lower()
        self.sign("(")
        argument = self.condition() if name == "any" else self.value()
        self.sign(")")
        return Aggregate(name, argument, token.at)


def parse_of_user(text: str) -> Node:
    """A value of one user, or a condition on it; UsageError says what is wrong and where."""
    if len(text) > MAX_LENGTH:
        raise error(text, MAX_LENGTH, f"more than {MAX_LENGTH} characters; shorten it")
    parser = _Parser(text.strip())
    found = parser.condition()
    if parser.next.kind != "end":
        raise parser.fail("the end, an operator or a comparison")
    return found


def parse(text: str) -> Number:
    """The number that a text asks for; UsageError says what is wrong and where."""
    if not isinstance(text, str):
        raise UsageError(f"numbers: expected texts, got {type(text).__name__}")
    if not text.strip():
        raise UsageError("numbers: expected a question such as 'count of users', got no text")
    if len(text) > MAX_LENGTH:
        raise error(text, MAX_LENGTH, f"more than {MAX_LENGTH} characters; shorten it")
    return _Parser(text.strip()).number()
