"""When an endpoint wants to be asked again, as its answer's headers say (RFC 9110 section 10.2.3)."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_SECONDS: Final = 86_400.0
"""An endpoint that asks for more is taken at a day: no header may put a session off for ever."""


def retry_after_seconds(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """How long to wait, in [0, 86 400] s; None where the headers do not say, or not so that it can be read.

    Taken are `retry-after-ms`, and `retry-after` in seconds or as a date.
    """
    for name, unit_seconds in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name))
        if seconds is not None:
            return _bounded(seconds * unit_seconds)
    when = _date(headers.get("retry-after"))
    return None if when is None else _bounded((when - now).total_seconds())


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _date(value: str | None) -> datetime | None:
    try:
        when = parsedate_to_datetime(value or "")
    except (TypeError, ValueError):
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), LONGEST_SECONDS)
