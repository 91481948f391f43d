"""What can be said of Spark's part in a run without importing its engine."""

from ..errors import UsageError, is_whole

MAX_PARTITIONS = 1 << 15
"""The most partitions of a table; each is a task of Spark and an answer on the driver."""


def check_partitions(partitions: int) -> int:
    """The number as an int; UsageError unless it is a whole number in 1..MAX_PARTITIONS."""
    if not is_whole(partitions, 1, MAX_PARTITIONS):
        raise UsageError(
            f"partitions: expected a whole number from 1 to {MAX_PARTITIONS} for Spark, "
            f"got {partitions!r}"
        )
    return int(partitions)
