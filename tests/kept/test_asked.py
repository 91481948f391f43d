"""Queries, user keys, measurements and domains on small grids, limits and refusals included, as they are
kept."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from fastdp import errors
from fastdp.domain import Domain, batches, downward_closure, maximal
from fastdp.engines import sparkpack
from fastdp.measurement import Measurement, Request
from fastdp.queries import AdaGrid, Binned, Grid, Identity, Sparse, Weighted, fresh, project_cells
from fastdp.userkeys import Groups, MostCommon, RowsPerUser

from .figures import check, given, plain


def _grid() -> Grid:
    a = Grid(("a",), (3,), np.arange(3))
    b = Grid(("b",), (2,), np.arange(2))
    c = Grid(("c",), (4,), np.arange(4))
    ba = Grid(("b", "a"), (2, 3), np.array([1, 4]), (b, a))
    ac = Grid(("a", "c"), (3, 4), np.array([0, 5, 11]), (a, c))
    return Grid(("a", "b", "c"), (3, 2, 4), np.array([8 + 4 * 1 + 1]), (ba, ac))


def _queries() -> list[Any]:
    binary = sp.csr_array(np.array([[1, 0, 1], [0, 0, 1]]))
    return [
        *(Identity(3), Weighted([1, 4, 9]), Weighted([1, 2, 3], [4, 5, 6]), Weighted([1, 1], 3)),
        *(Sparse(binary), Sparse(np.array([[0.5, 2.0], [0.0, -1.0]])), Sparse(np.zeros((0, 3)))),
        *(Binned((3, 2), [[0, 1, 0], None]), Binned((2, 2), [None, [0, 0]]), AdaGrid(_grid())),
    ]


def _block(block: Any) -> Any:
    matrix = None if block.matrix is None else block.matrix.toarray()
    key = [sorted(k) if isinstance(k, frozenset) else k for k in block.key]
    return plain([key, block.plus, block.cells, block.minus, block.fine, block.at, matrix])


def _of_queries() -> Any:
    out: list[Any] = []
    for query in _queries():
        x = np.arange(1, query.cells + 1) ** 2
        r = np.arange(1, query.rows + 1) ** 3
        out += [repr(query), query.rows, query.cells, given(lambda: query.coef2), given(query.column_norm2)]
        for numbers in (x, x * 0.5, x[:-1], x.reshape(-1, 1)):
            out.append(given(query.product, numbers))
        for numbers in (r, r * 0.5, r[:-1]):
            out.append(given(query.transpose, numbers))
        out += [given(query.single_cells), given(query.row_sigma, 2.0)]
        out.append(
            given(lambda: [_block(b) for b in query.blocks(("a", "b", "c")[: 3 if query.cells == 24 else 1])])
        )
        out.append(given(lambda: [repr(fresh(query, {})), fresh(query, {}).product(x).tolist()]))
    return out


def _refused_queries() -> Any:
    small = Grid(("a",), (3,), np.arange(3))
    calls: list[Any] = [
        *(lambda: Weighted([0]), lambda: Weighted([1], 0), lambda: Weighted([1, 2], [1, -1])),
        *(lambda: Sparse(np.array([[math.nan]])), lambda: Sparse(np.array([[math.inf]]))),
        *(lambda: Binned((3,), []), lambda: Binned((3,), [[0, 1]]), lambda: Binned((3,), [[0, -1, 0]])),
        *(lambda: Grid(("a",), (3,), np.arange(2)), lambda: Grid(("a",), (3,), np.array([0, 1, 3]))),
        *(lambda: Grid(("a",), (3,), np.array([-1, 0, 1])), lambda: Grid(("a",), (3,), np.array([0, 0, 1]))),
        *(lambda: Grid(("a", "b"), (3, 2), np.array([0]), (Grid(("c",), (2,), np.arange(2)),)),),
        lambda: Grid(("a", "b"), (3, 2), np.array([0]), (Grid(("a",), (2,), np.arange(2)),)),
        lambda: Grid(("a", "b"), (3, 2), np.array([0, 5]), (small,)).below,
        lambda: Grid(
            ("a", "b", "c"),
            (3, 2, 2),
            np.array([0, 11]),
            (Grid(("a", "b"), (3, 2), np.array([0]), (small,)),),
        ),
        lambda: Grid(("a",), (3,), np.arange(3), (small,)),
        *(lambda: Weighted([1] * 3, [2**30, 2**30 - 1, 2**30 - 3]).column_norm2(),),
        *(
            lambda: Weighted([2**60, 1, 1]).column_norm2(),
            lambda: Weighted([2**62 // 3, 1, 1]).column_norm2(),
        ),
        *(lambda: Weighted([2**62 // 3 + 1, 1, 1]).column_norm2(), lambda: Weighted([2**61]).column_norm2()),
        *(lambda: fresh(object(), {}), lambda: fresh(None, {}), lambda: fresh("x", {})),
        lambda: project_cells([0, 5, 23], ("a", "b", "c"), (3, 2, 4), ("c", "a"), (4, 3)),
    ]
    return [given(call) for call in calls]


def _keys() -> Any:
    domain, out = Domain({"a": 3, "b": 2, "c": 1 << 31, "d": 1 << 31}), []
    keys: list[Any] = [
        *(
            lambda e=e: RowsPerUser(e)
            for e in ((1,), (1, 2, 5), (2,), (), (0, 1), (1, 1), (2, 1), (1.5,), ((1,),))
        ),
        *(lambda: MostCommon(("a", "b")), lambda: MostCommon(("a",), labels=np.array([0, -1, 4]))),
        *(
            lambda: MostCommon(("a",), np.array([0, 1, 2]), 3),
            lambda: MostCommon(("a",), np.array([0, 1, 3]), 3),
        ),
        *(lambda: MostCommon(("a",), np.array([0, 1]), 2), lambda: MostCommon(("a",), np.array([-1] * 3))),
        *(lambda: MostCommon(("a",), np.array([0] * 3), 0), lambda: MostCommon(("c", "d"))),
        *(lambda: MostCommon(("a", "x")), lambda: MostCommon(("a", "a")), lambda: MostCommon(("c",))),
        *(
            lambda t=t: Groups(("a",), t)
            for t in (1, 4, 0, 1.5, "x", 1 << 60, (1 << 62) // 3, (1 << 62) // 3 + 1)
        ),
        *(lambda: Groups(("a", "b"), 2, np.array([0, 11])), lambda: Groups(("a", "b"), 2, np.array([0, 12]))),
        *(lambda: Groups(("a",), 2, np.array([1, 0])), lambda: Groups(("a",), 2, np.array([], int))),
        lambda: Groups(("a",), 2, np.array([-1, 0])),
    ]
    for make in keys:
        out.append(given(lambda: [make().digest(), make().domain_columns]))
        out.append(given(lambda: make().size))
        out.append(given(lambda: [make().bind(domain).size, make().bind(domain).digest()]))
        out.append(given(lambda: make().bind(domain).bind(Domain({"a": 4, "b": 2})).size))
    return out


def _measurements() -> Any:
    out: list[Any] = []
    for arguments in [
        ("a", [1.0, 2.0], 1.0),
        (("a", "b"), np.array([[1.0], [2.0]]), np.array([0.5, 2.0])),
        ("a", [1, 2], 1),
        ("a", np.array([1, 2]), 1.0),
        ("a", np.array([1.0, 2.0]), np.array([1, 2])),
        ("a", np.array([1.0, 2.0]), np.int64(3)),
        ("a", np.array([True]), 1.0),
        ("a", ["x"], 1.0),
        ("a", [1.0], "x"),
        ("a", [math.nan], 1.0),
        ("a", [1.0], math.inf),
        ("a", [1.0], 0.0),
        ("a", [1.0, 2.0], [1.0, 0.0]),
        ("a", [1.0], [1.0, 2.0]),
        ("a", [1.0, 2.0], [[1.0], [2.0]]),
        ("", [1.0], 1.0),
        ((1,), [1.0], 1.0),
        (("a", "a"), [1.0], 1.0),
        ((), [5.0], 1.0),
        ("a", [1.0, 2.0], 1.0, Identity(2)),
        ("a", [1.0, 2.0], 1.0, Identity(3)),
        ("a", [1.0, 2.0], 1.0, sp.csr_array(np.eye(2))),
        ("a", [1.0, 2.0], 1.0, sp.csr_array(np.eye(3))),
    ]:
        out.append(given(lambda: _shown(Measurement(*arguments))))
    for mu in (1, 0.5, 0, -1, math.inf, math.nan, "x"):
        out.append(given(lambda: Request("a", mu)))
    return out


def _shown(m: Measurement) -> Any:
    return [repr(m), m.clique, m.values, m.sigma, m.variances, m.values.flags.writeable]


def _domains() -> Any:
    domain, out = Domain({"age": 5, "sex": 2, "city": 7}), []
    for sizes in ({"a": 0}, {"a": 1}, {"a": 1.0}, {"a": 1.5}, {"a": True}, {"": 1}, {1: 1}, {}, {"a": "2"}):
        out.append(given(lambda: [repr(Domain(sizes)), len(Domain(sizes))]))
    for clique in ("age", ("sex", "age"), ("sex", "sex"), ("agee",), ("zzzzzz",), ()):
        out += [given(domain.check, clique), given(domain.canonical, clique)]
        out.append(given(lambda: [domain.shape(clique), domain.cells(clique)]))
    for recode in (
        {"sex": [0, 0]},
        {"sex": [1, 0]},
        {"sex": [0]},
        {"sex": [0, -1]},
        {"sexx": [0]},
        {"age": [4, 3, 2, 1, 9]},
    ):
        out.append(given(lambda: repr(domain.recoded(recode))))
    cliques = [("a", "b"), ("b", "a", "c"), ("d",), ("b",), ("a", "b"), ("d", "e"), ("e", "d"), ()]
    out += [downward_closure(cliques[:4]), maximal(cliques), maximal([()]), maximal([])]
    for limit in (1, 5, 6, 7, 100):
        out.append(list(batches([3, 3, 1, 9, 2, 4], limit)))
    return [*out, list(batches([], 5)), list(batches([99], 5))]


def _errors() -> Any:
    out: list[Any] = []
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.FastdpError):
            out.append([kind.__name__, kind.exit_code, [b.__name__ for b in kind.__bases__]])
    names = ["trip_id", "Fare", "city name", "x"]
    for name in ("trip id", "fare ", "CITY_NAME", "tripid", "fore", "yy", "trp_i"):
        out += [errors.nearest(name, names), errors.did_you_mean(name, names)]
    for count in (0, 1, 29, 30, 31):
        out.append(errors.did_you_mean("?", [f"n{i}" for i in range(count)]))
    values = (
        0,
        1,
        2,
        1.0,
        1.5,
        True,
        "1",
        None,
        math.nan,
        math.inf,
        np.int64(2),
        np.float32(2.0),
        np.bool_(True),
    )
    out += [[errors.is_whole(v), errors.is_whole(v, 1), errors.is_whole(v, 1, 1)] for v in values]

    def raising(error: BaseException) -> Any:
        def call() -> None:
            raise error

        try:
            errors.redact_errors(call, "no memory", lambda name: errors.DataError(f"failed: {name}"))
        except BaseException as caught:
            return [type(caught).__name__, str(caught), caught.__cause__ is None, caught.__context__ is None]

    kinds = (
        ValueError("7"),
        MemoryError("7"),
        KeyError("7"),
        errors.UsageError("ours"),
        KeyboardInterrupt(),
        SystemExit(3),
    )
    return [*out, [raising(error) for error in kinds], errors.redact_errors(lambda: 5, "", errors.DataError)]


def _words() -> Any:
    """Columns that share words of 64 bits, and what Spark is asked for."""
    out: list[Any] = []
    for kinds in (
        *([], ["int8"], ["int8", "int16"], ["int32", "int32"], ["int32", "date32[day]", "bool"], ["string"]),
        *(
            ["bool"] * 33,
            ["int32", "int8", "string", "int16", "bool", "int32", "int8"],
            ["int64", "bool", "bool"],
        ),
        *(["int32", "int16", "int8", "bool", "bool"], ["int16"] * 4),
    ):
        packed = sparkpack.words(kinds)
        names = [f"c{i}" for i in range(len(kinds))]
        out += [packed, sparkpack.alone(len(kinds), packed), sparkpack.expressions(names, kinds, packed)]
    return out


CASES: dict[str, Any] = {
    "words": _words,
    "queries": _of_queries,
    "refused queries": _refused_queries,
    "keys": _keys,
    "measurements": _measurements,
    "domains": _domains,
    "errors": _errors,
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_asked_is_what_is_kept(name):
    check("asked", name, CASES[name]())
