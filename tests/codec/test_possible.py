"""Constraints in codes against their slow twin on written values: exact both ways, also within
bins."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from fastdp.codec.code_values import drawn_overflow
from fastdp.codec.decode import decode
from fastdp.codec.ordered import order_groups
from fastdp.codec.possible import compiled_constraints, impossible
from fastdp.codec.violations import broken_codes, count_violations
from fastdp.errors import SchemaError
from fastdp.schema import Schema
from fastdp.schema.constraints import Constraint
from tests.reference.constraints import broken

NUMERIC = {"kind": "numeric", "edges": [0, 2, 5, 9], "null": "drop", "overflow": "clamp"}
WHOLE = {"kind": "integer", "min": 0, "max": 3}
TIME = {"kind": "timestamp", "min": "2020-02-27", "max": "2020-03-02", "step": 900}


def schema_of(columns, *constraints):
    return Schema.from_dict({"columns": columns, "constraints": list(constraints)})


def combinations(schema):
    """Codes of every combination of the modelled columns, with what follows from them."""
    names = list(schema.modelled)
    grid = np.indices(schema.modelled.shape(names)).reshape(len(names), -1)
    return compiled_constraints(schema).complete(dict(zip(names, grid)))


def ruled_out(schema, codes):
    out = np.zeros(len(next(iter(codes.values()))), bool)
    for clique, mask in compiled_constraints(schema).impossible.items():
        out |= mask[tuple(codes[a] for a in clique)]
    return out


def check_exact(schema, draws=24):
    """What is possible decodes to rows that satisfy everything; what is not, drawn without the
    constraints, never does (but for values outside that would be written as any known one)."""
    codes = combinations(schema)
    bad = ruled_out(schema, codes)
    drawn = {n: drawn_overflow(schema.columns[n]) for n in codes}
    judged = bad & ~np.any([codes[n] == (-1 if c is None else c) for n, c in drawn.items()], axis=0)
    free = schema.with_constraints([])
    for seed in range(draws):
        good_rows = decode(schema, {n: c[~bad] for n, c in codes.items()}, seed)
        assert broken(schema, good_rows) == [0] * len(schema.constraints)
        assert not any(count_violations(schema, good_rows).values())
        bad_rows = decode(free, {n: c[judged] for n, c in codes.items()}, seed)
        if judged.any():
            counts = [
                broken(schema, bad_rows.slice(i, 1)) for i in range(min(20, bad_rows.num_rows))
            ]
            assert all(any(c) for c in counts)
    return codes, bad


edges = st.lists(st.integers(-6, 12), min_size=2, max_size=4, unique=True).map(sorted)
numeric = st.builds(
    lambda edges, dtype, digits, ends: {
        "kind": "numeric",
        "edges": [*(["-inf"] if ends[0] else []), *edges, *(["inf"] if ends[1] else [])],
        "dtype": dtype,
        "overflow": "clamp",
        **({"digits": digits} if dtype == "float64" and digits else {}),
        **({"null": "drop"} if ends[2] else {}),
    },
    edges,
    st.sampled_from(["float64", "int32", "float32", "decimal128(12, 2)"]),
    st.sampled_from([None, 1, 2]),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)


@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(first=numeric, second=numeric, strict=st.booleans())
def test_order_of_two_columns_in_bins(first, second, strict):
    schema = schema_of({"a": first, "b": second}, {"order": ["a", "b"], "strict": strict})
    check_exact(schema, draws=6)


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(st.lists(edges, min_size=3, max_size=3), st.sampled_from(["float64", "int32"]))
def test_order_of_three_columns_in_bins(all_edges, dtype):
    columns = {n: {**NUMERIC, "edges": e, "dtype": dtype} for n, e in zip("abc", all_edges)}
    check_exact(schema_of(columns, {"order": ["a", "b"]}, {"order": ["b", "c"]}), draws=4)


def test_values_in_one_bin_are_drawn_evenly_among_those_in_order():
    """Of two numbers that are even over [0, 2) and in order, the smaller has mean 2/3 and the
    larger 4/3; the standard error of 20,000 draws is 0.0033, and 5 of them are allowed."""
    schema = schema_of({"a": NUMERIC, "b": NUMERIC}, {"order": ["a", "b"]})
    zeros = np.zeros(20_000, np.uint8)
    rows = decode(schema, {"a": zeros, "b": zeros}, 3)
    a, b = rows["a"].to_numpy(), rows["b"].to_numpy()
    assert (a <= b).all()
    assert abs(a.mean() - 2 / 3) < 0.017 and abs(b.mean() - 4 / 3) < 0.017
    assert abs(np.var(a) - 4 / 18) < 0.02


def test_slices_decode_to_the_same_ordered_values():
    schema = schema_of({"a": NUMERIC, "b": NUMERIC}, {"order": ["a", "b"]})
    codes = {"a": np.zeros(1000, np.uint8), "b": np.zeros(1000, np.uint8)}
    whole = decode(schema, codes, 5, 0)
    part = decode(schema, {n: c[300:400] for n, c in codes.items()}, 5, 300)
    assert whole.slice(300, 100).equals(part)


def test_times_in_order_by_their_parts():
    for parts in ({"date": "d"}, {"date": "d", "shift": "s"}, {"shift": "s"}):
        columns = {
            n: {
                **TIME,
                "parts": {p: f"{n}_{c}" for p, c in parts.items()},
                "null": "drop",
                "overflow": "drop",
            }
            for n in ("start", "end")
        }
        schema = schema_of(columns, {"order": ["start", "end"]})
        codes = combinations(schema)
        rows = decode(schema, {n: c[~ruled_out(schema, codes)] for n, c in codes.items()}, 1)
        assert broken(schema, rows) == [0] and count_violations(schema, rows) == {0: 0}


@settings(max_examples=20)
@given(data=st.data())
def test_lists_and_expressions_rule_out_the_same_combinations_as_the_slow_twin(data):
    texts = ["x", "y", "z"]
    columns = {
        "s": {"kind": "string", "values": texts},
        "a": {"kind": "integer", "max": 3, "null": "drop"},
        "b": {"kind": "integer", "min": -1, "max": 2, "overflow": "drop"},
        "c": {"kind": "integer", "min": -2, "max": 4},
    }
    pair = st.tuples(
        st.sampled_from(texts),
        st.one_of(st.integers(0, 3), st.lists(st.integers(0, 3), min_size=1)),
    )
    lines = [list(p) for p in data.draw(st.lists(pair, min_size=1, max_size=4))]
    kind = data.draw(st.sampled_from(["allowed", "forbidden"]))
    require = data.draw(
        st.sampled_from(
            ["a + b >= 1", "a != b or s == 'x'", "not s in ('x', 'y') and a > b", "a - 1 < b <= a"]
        )
    )
    follows = data.draw(
        st.sampled_from(["a - b", "(a + b) // 2", "max(a, b) if s == 'x' else -1", "abs(b) % 2"])
    )
    schema = schema_of(
        columns,
        {"columns": ["s", "a"], kind: lines},
        {"require": require},
        {"column": "c", "follows": follows, "model": data.draw(st.booleans())},
    )
    check_exact(schema, draws=1)


def test_values_outside_obey_what_they_would_be_written_as():
    columns = {
        "s": {"kind": "string", "values": ["x", "y"], "other": "x"},
        "a": {"kind": "integer", "max": 1},
    }
    schema = schema_of(columns, {"columns": ["s", "a"], "forbidden": [["x", 1]]})
    codes, bad = check_exact(schema, draws=2)
    assert bad[(codes["s"] == 2) & (codes["a"] == 1)].all()
    columns = {"a": {**WHOLE, "null": "drop"}, "b": {**WHOLE, "null": "drop"}}
    schema = schema_of(columns, {"order": ["a", "b"]})
    codes, bad = check_exact(schema, draws=4)
    assert bad[(codes["a"] == 4) | (codes["b"] == 4)].all()


def test_orders_that_share_no_column_do_not_know_of_each_other():
    """Numbers and times in one group would have to lie on one grid."""
    orders = {"order": ["a", "b"]}, {"order": ["s", "t"]}
    schema = schema_of({"a": NUMERIC, "b": NUMERIC, "s": WHOLE, "t": WHOLE}, *orders)
    assert [
        [item.name for item in group.items] for group in compiled_constraints(schema).orders
    ] == [
        ["a", "b"],
        ["s", "t"],
    ]
    check_exact(schema, draws=2)


def test_rows_are_counted_as_the_twin_counts_them():
    number = {**NUMERIC, "null": "code"}
    constraints = {"order": ["a", "b"]}, {"require": "c <= d"}, {"column": "d", "follows": "3 - c"}
    schema = schema_of({"a": number, "b": number, "c": WHOLE, "d": WHOLE}, *constraints)
    rng = np.random.default_rng(0)
    numbers = {n: np.where(rng.random(300) < 0.1, None, rng.random(300) * 9) for n in "ab"}
    whole = {n: rng.integers(0, 4, 300) for n in "cd"}
    table = pa.table({n: pa.array(list(v), pa.float64()) for n, v in numbers.items()} | whole)
    expected = broken(schema, table)
    assert min(expected) > 0
    assert list(count_violations(schema, table).values()) == expected
    assert count_violations(schema, table.select(["a", "c", "d"])) == {
        1: expected[1],
        2: expected[2],
    }
    codes = {"c": np.array([0, 1]), "d": np.array([3, 0])}
    assert broken_codes(schema, codes) == [1, 2]
    assert broken_codes(schema, {"c": codes["c"]}) == broken_codes(schema, {"d": codes["d"]}) == []


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        (
            [{"columns": ["s", "a"], "allowed": [["q", 1]]}],
            "constraint 1 .*'q' is not in its public domain",
        ),
        ([{"order": ["a", "s"]}], "texts"),
        ([{"order": ["a", "t"]}], "numbers cannot be compared with times"),
        ([{"order": ["a", "b"]}, {"order": ["b", "a"]}], "circle"),
        ([{"require": "a + q > 1"}], "no column 'q'"),
        ([{"require": "a ** 2 > 1"}], "not allowed in expressions"),
        ([{"require": "__import__('os')"}], "functions are"),
        ([{"require": "a // 0 > 1"}], "division by zero"),
        ([{"require": "x > 1"}], "each of its bins covers many"),
        ([{"column": "a", "follows": "b"}, {"column": "b", "follows": "a"}], "in a circle"),
        (
            [{"column": "a", "follows": "b"}, {"column": "a", "follows": "s == 'x'"}],
            "computed twice",
        ),
        ([{"column": "x", "follows": "a"}], "no value is defined"),
        ([{"column": "d", "follows": "a"}], "only columns of listed values"),
        (
            [{"column": "a", "from": ["s"], "table": [["x"]]}],
            "each row needs a value of every column",
        ),
        ([{"columns": ["a", "b"], "wrong": 1}], "wrong"),
    ],
)
def test_mistakes_in_constraints_are_named(rules, text):
    columns = {
        "a": WHOLE,
        "b": WHOLE,
        "s": {"kind": "string", "values": ["x", "y"]},
        "x": NUMERIC,
        "t": {**TIME, "parts": {"date": "d"}},
    }
    with pytest.raises(SchemaError, match=text):
        compiled_constraints(Schema.from_dict({"columns": columns, "constraints": rules}))


@pytest.mark.parametrize("dtype", ["date32", "timestamp[us]", "timestamp[ms, tz=Europe/Paris]"])
def test_order_of_dates_and_times_in_bins(dtype):
    bins = {"kind": "numeric", "dtype": dtype, "null": "drop", "overflow": "clamp"}
    days = {
        "a": ["2020-01-01", "2020-01-04", "2020-01-09"],
        "b": ["2020-01-02", "2020-01-03", "2020-01-06"],
    }
    columns = {name: {**bins, "edges": edges} for name, edges in days.items()}
    check_exact(schema_of(columns, {"order": ["a", "b"]}), draws=8)


def test_private_domains_and_tables_without_the_columns_are_refused(tmp_path):
    columns = {"a": {"kind": "integer", "domain": "private"}, "b": WHOLE}
    with pytest.raises(SchemaError, match="constraints need public values"):
        schema_of(columns, {"order": ["a", "b"]})
    columns["c"] = WHOLE
    assert schema_of(columns, {"order": ["b", "c"]}).stand_in().constraints
    for table, text in (
        (pa.table({"route": ["a"]}), "no column 's'"),
        (str(tmp_path / "x.csv"), "cannot read"),
    ):
        with pytest.raises(SchemaError, match=text):
            schema_of(
                {"route": WHOLE, "s": WHOLE}, {"column": "s", "from": ["route"], "table": table}
            )


@pytest.mark.parametrize("model", [True, False])
def test_a_column_follows_by_a_table_and_is_empty_where_the_table_says_nothing(model):
    inside = {"kind": "integer", "min": 2, "max": 4, "null": "drop", "overflow": "drop"}
    text = {"kind": "string", "values": ["x", "y", "z"], "null": "code", "overflow": "drop"}
    table = [[2, 2, "z"], [4, 3, "x"], [3, 4, "y"], [4, 4, "x"]]
    rule = {"column": "s", "from": ["a", "b"], "table": table, "model": model}
    schema = schema_of({"a": inside, "b": inside, "s": text}, rule)
    codes = combinations(schema)
    bad = ruled_out(schema, codes)
    made = decode(schema, {n: c[~bad] for n, c in codes.items()}, 0)
    assert not any(count_violations(schema, made).values())
    rows = made.to_pylist()
    expected = {(a, b): s for a, b, s in table}
    assert {(r["a"], r["b"]): r["s"] for r in rows} == {
        (a, b): expected.get((a, b)) for a in (2, 3, 4) for b in (2, 3, 4)
    }
    assert len(rows) == 9


ROUTES = {"route": ["a", "b", "c"], "miles": [12.5, 337.0, 9.25]}


@pytest.mark.parametrize("model", [True, False])
@pytest.mark.parametrize("source", ["rows", "frame", "file"])
def test_a_number_of_a_bin_follows_exactly_from_a_public_table(tmp_path, source, model):
    """Every row of a route has its very number, whatever is drawn in other columns; a row with
    another number of the same bin breaks the constraint. The routes need not all be listed."""
    path = tmp_path / "routes.csv"
    path.write_text("miles,route\n12.5,a\n337,b\n9.25,c\n337,b\n")
    rows = [list(row) for row in zip(*ROUTES.values())]
    table = {"rows": rows, "frame": pa.table(ROUTES), "file": str(path)}[source]
    text = {"kind": "string", "values": ["a", "b", "c", "d"], "null": "drop", "overflow": "drop"}
    number = {"kind": "numeric", "edges": [0, 10, 100, 1000], "null": "code", "overflow": "drop"}
    rule = {"column": "miles", "from": ["route"], "table": table, "model": model}
    schema = schema_of({"route": text, "miles": number}, rule)
    codes = compiled_constraints(schema).complete({"route": np.array([0, 1, 2, 3, 1])})
    if model:
        codes = {"route": np.array([0, 1, 2, 3, 1]), "miles": np.array([1, 2, 0, 3, 2])}
        assert compiled_constraints(schema).masks
    made = decode(schema, codes, 7)
    assert made["miles"].to_pylist() == [12.5, 337.0, 9.25, None, 337.0]
    assert count_violations(schema, made) == {0: 0}
    off = made.set_column(1, "miles", pa.array([12.5, 337.0, 9.5, None, 400.0]))
    assert count_violations(schema, off) == {0: 2}
    again = Schema.from_dict(schema.to_dict())
    assert again.digest() == schema.digest() and again.constraints[0].table == tuple(
        map(tuple, rows)
    )


OPEN = {"kind": "numeric", "edges": ["-inf", 5, 10, "inf"]}


@pytest.mark.parametrize(
    "names, strict", [(("a", "b"), False), (("a", "b"), True), (("a", "b", "c"), False)]
)
@pytest.mark.parametrize("grid", [{}, {"whole": True}])
def test_numbers_are_in_order_where_every_draw_is_out_of_it(strict, names, grid):
    """Also in bins without an end, which lie beyond every end of the row."""
    schema = schema_of(dict.fromkeys(names, OPEN | grid), {"order": list(names), "strict": strict})
    (group,) = order_groups(schema)
    codes = np.array(list(itertools.product(range(3), repeat=len(names)))).T
    codes = codes[:, (np.diff(codes, axis=0) >= 0).all(0)]
    place = {name: i for i, name in enumerate(names)}
    values = group.settle(
        dict(zip(names, codes)),
        lambda item, attempt: np.full(codes.shape[1], -1e6 * place[item.name]),
    )
    written = np.array([values[name] for name in names])
    assert np.isfinite(written).all() and (np.diff(written, axis=0) >= strict * 1e-9).all()
    low = np.array([-np.inf, 5, 10])[codes]
    assert (written >= low).all()
    assert (written[0][codes[0] == 0] < 5).all()


TRANSFORMED = [
    *(
        {"transform": "divmod", "by": by, "max": most}
        for by in (1, 3, 4)
        for most in (0, 2, 8, 10, 11)
    ),
    {"transform": "incwage-mod"},
    {"transform": "incwage-classes"},
]


@pytest.mark.parametrize("options", TRANSFORMED, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("model", [False, True])
def test_parts_of_a_number_are_possible_together_where_some_number_has_them(options, model):
    """As soon as a constraint names a part. Where a modelled column follows from one, both parts
    are null or neither is."""
    columns = {
        "x": {"kind": "derived", **options, "parts": ["q", "r"]},
        "a": {"kind": "integer", "max": 200},
    }
    rule = {"column": "a", "follows": "r", "model": True} if model else {"require": "r <= a"}
    schema = schema_of(columns, rule)
    field = schema.fields["x"]
    values = np.arange(field.max + 1) if field.max is not None else np.r_[:5_001, 999_998]
    (q, r), good = field.split(values)
    assert good.all()
    want = np.ones(schema.domain.shape(("q", "r")), bool)
    want[q, r] = False
    bases = [p.base for p in field.parts]
    beyond = [np.arange(p.size) >= p.base for p in field.parts]
    want[bases[0] :] = want[:, bases[1] :] = False
    if model:
        want |= beyond[0][:, None] != beyond[1]
    mine = compiled_constraints(schema).impossible.get(("q", "r"), np.zeros_like(want))
    assert np.array_equal(mine, want)


# Constraints in a recipe's words: masks by the values behind the codes.


def ranges(general, detailed) -> Schema:
    """Columns g and d of whole numbers, each (least, width)."""
    columns = {
        name: {
            "kind": "integer",
            "min": least,
            "max": least + width,
            "null": "code",
            "overflow": "code",
        }
        for name, (least, width) in (("g", general), ("d", detailed))
    }
    return Schema.from_dict({"columns": columns})


RANGE = st.tuples(st.integers(-40, 40), st.integers(0, 60))


@settings(max_examples=40, deadline=None)
@given(RANGE, RANGE, st.integers(2, 12))
def test_divide_compares_the_numbers_behind_the_codes(general, detailed, divide):
    """general = floor(detailed / divide), wherever the code book has that general value, whatever
    number the columns start at; nulls and values outside the domain combine with everything."""
    schema = ranges(general, detailed)
    mask = impossible(schema, Constraint(columns=("g", "d"), divide=divide))
    numbers = [range(least, least + width + 1) for least, width in (general, detailed)]
    want = np.zeros(schema.domain.shape(("g", "d")), bool)
    for i, g in enumerate(numbers[0]):
        for j, d in enumerate(numbers[1]):
            want[i, j] = d // divide in numbers[0] and g != d // divide
    assert np.array_equal(mask, want)


def test_divide_is_for_whole_numbers():
    for values in (["a", "b"], [True, False]):
        column = {
            "kind": "categorical",
            "values": values,
            "dtype": "string" if values[0] == "a" else "bool",
        }
        schema = Schema.from_dict({"columns": {"g": column, "d": column}})
        with pytest.raises(SchemaError, match="whole numbers"):
            impossible(schema, Constraint(columns=("g", "d"), divide=10))


def times(least, most, parts):
    return Schema.from_dict(
        {"columns": {"at": {"kind": "timestamp", "min": least, "max": most, "parts": parts}}}
    )


@pytest.mark.parametrize(
    ("least", "most"),
    [("2016-01-01", "2021-08-31"), ("2019-11-30", "2020-02-01"), ("2020-06-05", "2020-06-05")],
)
@pytest.mark.parametrize("parts", [["year", "month", "hour"], ["month", "day_of_week", "year"]])
def test_months_outside_the_span_are_impossible(least, most, parts):
    """Slow twin: the months of each day of the span, one by one. Every other month of its years
    would be written as a random day of the whole span."""
    schema = times(least, most, parts)
    (mask,) = compiled_constraints(schema).masks
    days = np.arange(np.datetime64(least), np.datetime64(most) + 1)
    held = {(int(str(day)[:4]), int(str(day)[5:7])) for day in days}
    years, months = (schema.columns[f"at_{part}"] for part in ("year", "month"))
    first = int(least[:4])
    for i, j in itertools.product(range(years.size), range(months.size)):
        place = (i, j) if mask.clique == ("at_year", "at_month") else (j, i)
        inside = (first + i, j + 1) in held or i >= years.base or j >= months.base
        assert mask.impossible[place] == (not inside)


def test_whole_years_and_dates_rule_nothing_out():
    assert not compiled_constraints(times("2016-01-01", "2017-12-31", ["year", "month"])).masks
    assert not compiled_constraints(times("2016-02-01", "2017-08-31", ["date", "hour"])).masks
    assert not compiled_constraints(times("2016-02-01", "2017-08-31", ["month", "hour"])).masks
