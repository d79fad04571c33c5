"""No one sees another's memory: searched for in every byte that the whole system answers."""

import time

import pytest

from tests.isolation import record
from tests.isolation.machine import Driver, run
from tests.isolation.stage import Stage

pytestmark = pytest.mark.timeout(record.longest_seconds())


def test_no_answer_holds_a_text_that_its_asker_may_not_see(stage: Stage) -> None:
    began = time.monotonic()
    with Driver(stage) as driver:
        try:
            run(driver, operations=record.operations(), seed_number=record.seed_number())
        finally:
            tally = driver.tally
            print(record.write("as in production", tally, seconds=time.monotonic() - began))  # noqa: T201 - The seed.
    assert tally.findings == []
    assert tally.done >= record.operations()
    assert tally.statuses[500] == 0
    # It looked where there was something to see.
    assert tally.loads_with_own * 40 > tally.done
    assert tally.own > tally.done
