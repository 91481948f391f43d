"""`Run.top_share`: each reason for which there is no share has words of its own."""

from types import SimpleNamespace

import pytest

from fastdp.errors import UsageError
from fastdp.run.answering import top_share_of
from fastdp.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "user": {"column": "who", "amounts": ["paid", "late"]},
        "columns": {
            name: {"kind": "integer", "min": 0, "max": 9} for name in ("paid", "late", "shop")
        },
    }
)


def released(edges=(0, 8, 16), noise: float | None = 3.0):
    """A run that released the sums of `paid`, and the total with this noise."""
    bins = {"kind": "numeric", "edges": list(edges), "null": "drop", "overflow": "drop"}
    facts = SimpleNamespace(schema=Schema.from_dict({"columns": {"sum(paid)": bins}}), tabled=True)
    users = [{"sum(paid)": f"bin {i}", "estimate": 40.0, "error": 2.0} for i in range(2)]
    low, high = (None, None) if noise is None else (800.0 - 1.96 * noise, 800.0 + 1.96 * noise)
    total = [
        {
            "estimate": 800.0,
            "low": low,
            "high": high,
            "noise": noise,
            "note": "a bin of paid has no limit",
        }
    ]

    def answer(of, by=()):
        lines = users if by else total
        if of == "count of users" and not by:
            lines = [{"estimate": 80.0, "error": 2.0}]
        return SimpleNamespace(to_pylist=lambda: lines)

    rows = SimpleNamespace(table=lambda columns: None)
    return SimpleNamespace(
        schema=SCHEMA, _written_schema=SCHEMA, _facts=rows, _people_facts=facts, answer=answer
    )


def test_the_share_of_a_total_that_is_known():
    found = top_share_of(released(), "paid", 0.1, 0.95)
    assert 0.1 <= found.low <= found.estimate <= found.high <= 1.0


@pytest.mark.parametrize(
    ("run", "column", "part", "says"),
    [
        (released(), "paid", 1.5, "part: expected a part between 0 and 1, found 1.5"),
        (released(edges=(-8, 0, 8)), "paid", 0.1, "'paid' may be below 0"),
        (released(noise=None), "paid", 0.1, "no interval: a bin of paid has no limit"),
        (released(), "late", 0.1, "per user; too few users"),
        (released(), "shop", 0.1, "name it in amounts"),
    ],
)
def test_every_reason_is_told_apart(run, column, part, says):
    """A total of an open bin had ended in a TypeError, and a column that amounts name was asked to be
    named there."""
    with pytest.raises(UsageError, match=says):
        top_share_of(run, column, part, 0.95)
