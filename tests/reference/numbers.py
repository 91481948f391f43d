"""The slow twin of `numbers.user_evaluation`: one user after the other, Python numbers, no arrays.

Rows are dictionaries from column to value: a Decimal (of dates and times: seconds), a text, or None.
"""

import operator
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal

from fastdp.numbers import number_nodes as lang

LARGEST = 1 << 40


def saturated(value, unit):
    """A Decimal in whole units, cut off at LARGEST of them."""
    steps = (value / unit).to_integral_value(rounding=ROUND_HALF_EVEN)
    return int(min(max(steps, -LARGEST), LARGEST))


def evaluate(number, rows_of, sizes):
    """{user: {group: (value, weight)}} in Decimals; rows_of: {user: rows}, where each row also has
    its codes under ("code", column); sizes: codes of the `by` columns; order: key of rows."""
    return {who: dict(_entries(number, rows, sizes)) for who, rows in rows_of.items()}


def _cell(codes, sizes):
    cell = 0
    for code, size in zip(codes, sizes, strict=True):
        cell = cell * size + code
    return cell


def _entries(number, rows, sizes):
    asked = number.number
    order = number.schema.order

    def by_code(row, names):
        return tuple(row["code", name] for name in names)

    if asked.of == "rows":
        kept = rows
        if asked.where is not None and asked.aggregate != "share":
            kept = [r for r in rows if _value(asked.where, r, rows, order)]
        for key in sorted({by_code(r, asked.by) for r in kept}):
            mine = [r for r in kept if by_code(r, asked.by) == key]
            if asked.aggregate == "count":
                value = len(mine)
                weight = len(mine)
            elif asked.aggregate == "share":
                value = sum(bool(_value(asked.where, r, rows, order)) for r in mine)
                weight = len(mine)
            else:
                found = [_value(asked.value, r, rows, order) for r in mine]
                found = [x for x in found if x is not None]
                value = sum(found, Decimal(0))
                weight = len(found)
            if weight:
                yield _cell(key, sizes), (Decimal(value), weight)
        return
    constant = number.schema.of_users()
    picks = dict(zip(asked.by, asked.pick, strict=True))
    whole = number.schema.user is None
    own = [n for n in asked.by if not picks[n] and constant.get(n) != "constant" and not whole]
    for key in sorted({by_code(r, own) for r in rows}):
        mine = [r for r in rows if by_code(r, own) == key]
        codes = [
            dict(zip(own, key))[n]
            if n in own
            else _end(mine, ("code", n), picks[n] != "last", order)
            for n in asked.by
        ]
        truth = asked.where is None or _value(asked.where, None, mine, order)
        if asked.aggregate == "share":
            yield _cell(codes, sizes), (Decimal(int(truth)), 1)
        elif truth and asked.aggregate == "count":
            yield _cell(codes, sizes), (Decimal(1), 1)
        elif truth:
            value = _value(asked.value, None, mine, order)
            if value is not None:
                yield _cell(codes, sizes), (Decimal(value), 1)


def _end(rows, key, first, order):
    """The value under `key` of the first or last row by `order`, ties by the value itself."""
    there = [r for r in rows if r[key] is not None]
    if not there:
        return None

    def rank(row):
        keys = [row[name] for name in order]
        missing = [(x is None) == first for x in keys]  # a missing key loses against all others
        tie = row.get(("code", key), row.get("tie", row[key]))  # of categories: by code
        return [(m, 0 if x is None else x) for m, x in zip(missing, keys)], tie

    return (min if first else max)(there, key=rank)[key]


def _dated(value, other):
    """A text beside a number: the seconds since 1970 of the date that it spells."""
    if isinstance(value, str) and isinstance(other, Decimal):
        return Decimal((datetime.fromisoformat(value) - datetime(1970, 1, 1)).total_seconds())
    return value


def _value(node, row, rows, order):
    """The value of a node for one row (`row` None: for the user who has `rows`)."""

    def inner(item):
        return _value(item, row, rows, order)

    match node:
        case lang.Column(name=name):
            return row[name] if row is not None else _end(rows, name, True, order)
        case lang.Constant(value=value, unit=unit):
            return value * lang.DURATIONS[unit] if unit else value
        case lang.Aggregate(function="rows"):
            return Decimal(len(rows))
        case lang.Aggregate(function="any", argument=condition):
            return any(_value(condition, r, rows, order) for r in rows)
        case lang.Aggregate(function="first" | "last" as function, argument=argument):
            name = getattr(argument, "name", None)
            found = [r | {"it": _value(argument, r, rows, order)} for r in rows]
            found = [r | {"tie": r.get(("code", name), r["it"])} for r in found]
            return _end(found, "it", function == "first", order)
        case lang.Aggregate(function=function, argument=argument):
            found = [_value(argument, r, rows, order) for r in rows]
            found = [x for x in found if x is not None]
            if function == "sum":
                return sum(found, Decimal(0))
            if function == "distinct":
                return Decimal(len(set(found)))
            if not found:
                return None
            return min(found) if function == "min" else max(found)
        case lang.Arithmetic(op=op, left=left, right=right):
            a, b = inner(left), inner(right)
            if a is None or b is None:
                return None
            return {"+": operator.add, "-": operator.sub, "*": operator.mul}[op](a, b)
        case lang.Comparison(op=op, left=left, right=right):
            a, b = inner(left), inner(right)
            a, b = _dated(a, b), _dated(b, a)
            if a is None or b is None:
                return False
            compare = {"=": a == b, "!=": a != b}
            if op in compare:
                return compare[op]
            return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]
        case lang.Membership(operand=operand, values=values):
            return inner(operand) in [v.value for v in values]
        case lang.Missing(operand=operand):
            return inner(operand) is None
        case lang.Logical(op=op, items=items):
            return (all if op == "and" else any)(inner(item) for item in items)
        case lang.Not(item=item):
            return not inner(item)
    raise TypeError(type(node).__name__)
