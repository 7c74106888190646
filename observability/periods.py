"""Stretches of time that Insights looks at, in the workspace's own time zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from observability.rollups import HOUR, hour_of

DAY = timedelta(days=1)
#: Ranges of the page, with their labels and how many days they have.
RANGES: dict[str, tuple[str | Promise, int]] = {
    "24h": (_("24 hours"), 1),
    "7d": (_("7 days"), 7),
    "30d": (_("30 days"), 30),
    "all": (_("All"), 0),
    "custom": (_("Custom"), 0),
}
DEFAULT = "7d"
#: Up to this many hours a chart has one point per hour, then one per day or month.
MOST_HOURS = 48
MOST_DAYS = 92
#: The earliest day that may be asked for.
EARLIEST = date(2000, 1, 1)


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` up to, not including, `end`; both are whole hours."""

    start: datetime
    end: datetime
    zone: ZoneInfo

    @property
    def before(self) -> Period:
        """The equally long period that ends where this one starts."""
        return Period(self.start - (self.end - self.start), self.start, self.zone)

    @property
    def step(self) -> str:
        """What one point of a chart stands for: hour, day or month."""
        length = self.end - self.start
        if length <= MOST_HOURS * HOUR:
            return "hour"
        return "day" if length <= MOST_DAYS * DAY else "month"

    def bucket(self, moment: datetime) -> datetime:
        """The begin of the point that a moment falls into, in the local zone."""
        local = moment.astimezone(self.zone)
        if self.step == "hour":
            # The hour stays aware of its offset: local hours may come twice a year.
            return hour_of(moment).astimezone(self.zone)
        day = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        return day if self.step == "day" else day.replace(day=1)

    def buckets(self) -> list[datetime]:
        """The begins of all points in order, also of those where nothing happened."""
        found: list[datetime] = []
        moment = self.start
        while moment < self.end:
            begin = self.bucket(moment)
            if not found or found[-1] != begin:
                found.append(begin)
            moment += HOUR
        return found


def local_day(day: date, zone: ZoneInfo) -> datetime:
    """The whole hour, UTC, in which the local day begins."""
    return hour_of(datetime.combine(day, time(), zone))


def period_of(
    name: str,
    zone: ZoneInfo,
    now: datetime,
    *,
    first: datetime | None = None,
    days: tuple[date, date] | None = None,
) -> Period:
    """The period of a range.

    24h are 24 whole hours with the present one; 7d and 30d are local days with today;
    all begins with the `first` call. `days` are the first and last of a custom range.
    """
    end = hour_of(now) + HOUR
    if name == "custom" and days:
        start = local_day(days[0], zone)
        return Period(start, max(start + HOUR, local_day(days[1] + DAY, zone)), zone)
    if name == "24h":
        return Period(end - DAY, end, zone)
    if name == "all":
        return Period(hour_of(first) if first else end - DAY, end, zone)
    today = now.astimezone(zone).date()
    length = RANGES[name if name in ("7d", "30d") else DEFAULT][1]
    return Period(local_day(today - (length - 1) * DAY, zone), end, zone)


def parse_days(first: str, last: str, today: date) -> tuple[date, date] | None:
    """Two days of a custom range in order, none in the future; None for nonsense."""
    try:
        one, two = date.fromisoformat(first), date.fromisoformat(last)
    except ValueError:
        return None
    one, two = sorted((one, two))
    if two < EARLIEST:
        return None
    return max(one, EARLIEST), min(two, max(today, one))


def zone_of(name: str) -> ZoneInfo:
    """The zone of that name, or UTC when this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC")


def aware(moment: datetime) -> datetime:
    """A moment that some databases give back without its zone, as UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
