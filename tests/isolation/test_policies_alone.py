"""Row-level security by itself: services whose statements ask for no organization show nobody another's texts."""

import time

import pytest

from tests.isolation import record
from tests.isolation.machine import Driver, run
from tests.isolation.stage import Stage

pytestmark = pytest.mark.timeout(record.longest_seconds())


def test_with_policies_alone_no_answer_holds_another_organizations_text(unfiltered: Stage) -> None:
    began = time.monotonic()
    with Driver(unfiltered, only_organizations=True) as driver:
        try:
            run(driver, operations=record.operations(), seed_number=record.seed_number())
        finally:
            tally = driver.tally
            print(record.write("policies alone", tally, seconds=time.monotonic() - began))  # noqa: T201

    assert tally.foreign == []
    assert tally.done >= record.operations()
    # It looked where there was something to see.
    assert tally.loads_with_own * 40 > tally.done
    assert tally.own > tally.done
