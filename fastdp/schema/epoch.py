"""Listed dates and times as the whole numbers that Arrow stores."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EPOCH = datetime(1970, 1, 1)


def since_1970(text: str, unit: str, tz: str | None) -> int:
    """Units since 1970 of an ISO time: in UTC for a column with a zone (a time without one is local to it,
    the earlier where the clock shows it twice), on the local clock for a column without."""
    moment = datetime.fromisoformat(text)
    if tz is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(tz))
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    passed = moment - EPOCH
    micro = (passed.days * 86_400 + passed.seconds) * 10**6 + passed.microseconds
    return micro * UNITS[unit] // 10**6
