"""Which engine counts a source, and what is refused before anything is read. (Spark itself: tests/spark.)"""

import pyarrow as pa
import pytest

from fastdp.engines.sparkcheck import MAX_PARTITIONS
from fastdp.errors import UsageError
from fastdp.run.counting import check_rereading, engine_for
from fastdp.run.diagnosis import check_rereadable

ROWS = pa.table({"a": [0, 1]})
SPARK = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})()


def test_a_spark_frame_is_counted_by_spark_and_nothing_else_is():
    assert engine_for(SPARK, None, None, False) == engine_for(SPARK, "spark", 1, False) == "spark"
    assert engine_for(ROWS, None, None, True) == "local"
    with pytest.raises(UsageError) as caught:
        engine_for(ROWS, "spark", None, False)
    assert str(caught.value) == "engine='spark' counts a Spark DataFrame, not a Table"


@pytest.mark.parametrize("count", [0, -1, 1.5, True, MAX_PARTITIONS + 1])
def test_partitions_of_spark_are_a_whole_number(count):
    assert engine_for(SPARK, None, MAX_PARTITIONS, False) == "spark"
    with pytest.raises(UsageError, match=f"partitions of Spark must be a whole number from 1 to .*{count}"):
        engine_for(SPARK, None, count, False)


def test_what_needs_rows_in_this_process_is_refused_of_spark():
    for refused, text in (
        (lambda: engine_for(SPARK, None, None, True), "report= compares with the truth as one table, and "),
        (
            lambda: check_rereading(SPARK),
            "a private domain is not found in a Spark DataFrame: write it to ",
        ),
        (
            lambda: check_rereadable(SPARK),
            "diagnose reads the values in this process, and Spark's rows do not",
        ),
    ):
        with pytest.raises(UsageError) as caught:
            refused()
        assert str(caught.value).startswith(text)
    assert check_rereading(ROWS) is check_rereadable(ROWS) is None
