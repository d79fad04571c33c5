"""Retry-After in all its spellings."""

from datetime import UTC, datetime
from typing import Final

import pytest

from lorebus_kit.providers.retry_after import retry_after_seconds

NOON: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 -0000"}, 30.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "999999999"}, 86_400.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_the_wait_is_read_where_it_can_be_and_never_beyond_a_day(
    headers: dict[str, str], expected: float | None
) -> None:
    assert retry_after_seconds(headers, now=NOON) == expected
