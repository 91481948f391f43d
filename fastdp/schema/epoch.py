"""Converts dates and times in schema documents to the whole numbers that Arrow stores, and back."""

from datetime import UTC, datetime, timedelta

from . import dtypes

DAY_SECONDS = 86_400
"""Seconds of a day; calendars here have no leap seconds."""
DAY_MILLISECONDS = 1000 * DAY_SECONDS
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EPOCH = datetime(1970, 1, 1)


def local_day(passed: int, dtype: str) -> int:
    """The day since 1970, on the column's own clock, of a number of days or seconds since 1970 in
    UTC."""
    first, last = day_range(dtype)
    day = passed if dtypes.family(dtype) == "date" else passed // DAY_SECONDS
    if first < day < last and (tz := getattr(dtypes.arrow(dtype), "tz", None)) is not None:
        moment = (EPOCH + timedelta(seconds=passed)).replace(tzinfo=UTC).astimezone(dtypes.zone(tz))
        return (moment.replace(tzinfo=None) - EPOCH).days
    return min(max(day, first), last)


def since_1970(text: str, unit: str, tz: str | None) -> int:
    """An ISO time as a number of units since 1970. For a column with a zone it counts since 1970 in
    UTC. A text without a zone is a local time of that zone (of two equal local times, the earlier).
    For a column without a zone: on the local clock."""
    moment = datetime.fromisoformat(text)
    if tz is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=dtypes.zone(tz))
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    passed = moment - EPOCH
    micro = (passed.days * DAY_SECONDS + passed.seconds) * 10**6 + passed.microseconds
    return micro * UNITS[unit] // 10**6


def coarse(text: str, dtype: str) -> int:
    """Whole days (dates) or seconds (timestamps) since 1970 of an ISO date or time. ValueError if
    the text is not a date or time, or has fractions of a second."""
    if dtypes.family(dtype) == "date":
        return since_1970(datetime.fromisoformat(text).date().isoformat(), "s", None) // DAY_SECONDS
    micro = since_1970(text, "us", getattr(dtypes.arrow(dtype), "tz", None))
    if micro % 10**6:
        raise ValueError("expected whole seconds")
    return micro // 10**6


def text_of(passed: int, dtype: str) -> str:
    """The inverse of `coarse`: the ISO date or time of a number of days or seconds since 1970."""
    if dtypes.family(dtype) == "date":
        return (EPOCH + timedelta(days=passed)).date().isoformat()
    zone = "+00:00" if getattr(dtypes.arrow(dtype), "tz", None) is not None else ""
    return (EPOCH + timedelta(seconds=passed)).isoformat() + zone


def per_unit(dtype: str) -> int:
    """How many of Arrow's units of the type make one day (dates) or one second (timestamps)."""
    if dtypes.family(dtype) == "date":
        return 1 if dtype == "date32" else DAY_MILLISECONDS
    return UNITS[dtypes.arrow(dtype).unit]


def time_range(dtype: str) -> tuple[int, int]:
    """First and last day or second that the type can hold, within the years 1 to 9999."""
    if dtypes.family(dtype) == "date":
        return -719_162, 2_932_896
    if dtypes.arrow(dtype).unit == "ns":
        return -9_223_372_036, 9_223_372_036
    return -62_135_596_800, 253_402_300_799


def day_range(dtype: str) -> tuple[int, int]:
    """First and last day of which the type can hold every time, on the clock of any zone."""
    first, last = time_range(dtype)
    if dtypes.family(dtype) == "date":
        return first, last
    nano = dtypes.arrow(dtype).unit == "ns"
    return -(-first // DAY_SECONDS) + nano, (last + 1) // DAY_SECONDS - 1 - nano
