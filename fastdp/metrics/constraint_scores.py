"""How many rows of each table break the schema's constraints."""

from typing import Any

from ..codec.violations import count_broken_codes, count_violations
from ..schema import Schema
from .compare import Comparison
from .metric import metric


def score(truth: Any, synthetic: Any, schema: Schema | None) -> dict[str, Any] | None:
    """`broken`: for each constraint its text and the number of rows that break it in the truth and
    in the synthetic table (None if a table lacks the columns); `synthetic`: the sum of the
    synthetic table's numbers. None if the schema has no constraints. In tables of codes, the order
    of two values in one bin is not checked."""
    if schema is None or not schema.constraints:
        return None
    counts = [_counts(source, schema) for source in (truth, synthetic)]
    numbers = range(len(schema.constraints))
    sides = [{"truth": counts[0].get(i), "synthetic": counts[1].get(i)} for i in numbers]
    broken = [{"constraint": c.text, **side} for c, side in zip(schema.constraints, sides)]
    return {"synthetic": sum(counts[1].values()), "broken": broken}


def _counts(source: Any, schema: Schema) -> dict[int, int]:
    if hasattr(source, "codes"):
        return count_broken_codes(schema, source.codes)
    return count_violations(schema, source)


def _constrained(comparison: Comparison) -> bool:
    return comparison.schema is not None and bool(comparison.schema.constraints)


@metric("constraints", applies=_constrained, default="yes", rank=30)
def of_tables(comparison: Comparison) -> dict[str, Any] | None:
    return score(comparison.truth, comparison.synthetic, comparison.schema)
