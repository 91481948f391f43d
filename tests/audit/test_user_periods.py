"""Planted bugs of the unit "user and period": each must show in the replay audit.

The neighbours are those of docs/explain/user-periods.md: all rows of one user in one month. They
are made so that a bound per user, an escape of rows without a time, or another zone, is not enough.
"""

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.schema.periods import NO_TIME_CODE
from fastdp.tables import ingest, row_periods
from fastdp.tables.userids import UserIndex

from .replay import worlds
from .replay.audit import audit_world
from .replay.worlds import Scene, World

ZONE = "America/New_York"
CLIP = 4
DAY = 86_400_000_000
MARCH = 1_772_341_200_000_000
"""1 March 2026, 0 h in New York, in microseconds."""
APRIL = 1_775_016_000_000_000


def rows(who: int, times: list[int | None], code: int) -> pa.Table:
    """Rows of one user, all with one code."""
    stamps = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"u": pa.array([who] * len(times), pa.int64()), "t": stamps}).append_column(
        "n", pa.array([code] * len(times), pa.int64())
    )


def scene() -> Scene:
    """A user with four rows in February; one neighbour has 400 rows of March too, one 40 rows
    without a time, one March's first and last moments, 20 rows each."""
    others = [rows(i, [MARCH - (i + 1) * DAY] * 3, i % 4) for i in range(1, 9)]
    base = pa.concat_tables([rows(0, [MARCH - 3 * DAY] * 4, 1), *others])
    more = [
        rows(0, [MARCH + DAY] * 400, 2),
        rows(0, [None, 2**63 - 1] * 20, 2),
        rows(0, [MARCH, APRIL - 1] * 20, 2),
    ]
    plain = {
        "user": {"column": "u", "max_rows": 20},
        "unit": {"kind": "user-period", "period": "month", "of": "t", "zone": ZONE},
        "columns": {"n": {"kind": "integer", "max": 3}},
    }
    recipe = {"mechanism": "mst", "clip": CLIP}
    run = worlds.synthesize(fastdp.Schema.from_dict(plain), mechanism=recipe, epsilon=10.0)
    return Scene(base, [pa.concat_tables([base, one]) for one in more], run)


def found() -> list[str]:
    made = scene()
    return audit_world(World("user-months", 3, lambda rng: made), 3)[0]


def bounded_per_user():
    """Ids without their periods: the weights of a user's other months change too."""
    real = UserIndex.prepare
    return [patch.object(UserIndex, "prepare", lambda self, ids, periods=None: real(self, ids))]


def every_row_without_a_time_its_own_period():
    def planted(array, period):
        codes = row_periods.row_periods(array, period)
        return np.where(codes == NO_TIME_CODE, codes + np.arange(len(codes)), codes)

    return [patch.object(ingest, "row_periods", planted)]


def times_of_another_zone():
    return [patch.object(row_periods, "_local", lambda seconds, zone: seconds)]


def test_one_user_month_changes_no_more_than_was_charged():
    assert found() == []


@pytest.mark.parametrize(
    "bug", [bounded_per_user, every_row_without_a_time_its_own_period, times_of_another_zone]
)
def test_a_planted_bug_is_reported(bug):
    (planted,) = bug()
    with planted:
        texts = found()
    assert any("charged are" in text for text in texts), texts[:5] or "nothing was reported"
