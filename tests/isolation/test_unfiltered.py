"""The search can fail: with nothing between organizations it finds what it is there to find."""

import time

import pytest

from tests.isolation import record
from tests.isolation.machine import Driver, run
from tests.isolation.stage import Stage

pytestmark = pytest.mark.timeout(record.longest_seconds())

SOON = 3_000


def test_without_filters_and_policies_the_search_soon_finds_other_organizations_texts(
    unguarded: Stage,
) -> None:
    began = time.monotonic()
    with Driver(unguarded, stops_at_first_leak=True) as driver:
        run(driver, operations=SOON, seed_number=record.seed_number())
    tally = driver.tally
    print(record.write("without filters and policies", tally, seconds=time.monotonic() - began))  # noqa: T201

    assert any(leak.shows_text for leak in tally.foreign)
