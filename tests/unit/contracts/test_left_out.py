"""What a pack left out, as columns."""

from base64 import b64encode

import pytest

from lorebus_contracts.events import RecallRecorded
from lorebus_contracts.left_out import LeftOut, PassedOverEntry
from lorebus_contracts.wire import WireError, parse, validate
from lorebus_domain.ranking import PassReason
from tests.unit.contracts.bodies import recall_body
from tests.unit.contracts.columns import FIRST, ONE_ID, SECOND, floats


def test_columns_tell_each_candidate_in_its_order() -> None:
    columns = LeftOut(
        memory_ids=b64encode(SECOND.bytes + FIRST.bytes + FIRST.bytes).decode(),
        reasons="dob",
        parts=floats(0.9, 1.0, 0.1 + 0.2, 1e-9, 0.5, 0.25, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    )

    assert columns.entries() == (
        PassedOverEntry(
            memory_id=SECOND,
            reason=PassReason.DUPLICATE,
            score=0.9,
            relevance=1.0,
            importance=0.30000000000000004,
            recency=1e-9,
        ),
        PassedOverEntry(
            memory_id=FIRST,
            reason=PassReason.OVER_BUDGET,
            score=0.5,
            relevance=0.25,
            importance=1.0,
            recency=0.0,
        ),
        PassedOverEntry(
            memory_id=FIRST,
            reason=PassReason.BEYOND_TOP_K,
            score=0.0,
            relevance=0.0,
            importance=0.0,
            recency=0.0,
        ),
    )


def test_no_candidates_are_three_empty_columns() -> None:
    assert LeftOut(memory_ids="", reasons="", parts="").entries() == ()


def test_a_recall_without_the_columns_has_none() -> None:
    assert parse(RecallRecorded, recall_body()).left_out is None


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"memory_ids": "", "reasons": "b", "parts": floats(0, 0, 0, 0)}, "columns of different lengths"),
        ({"memory_ids": ONE_ID, "reasons": "b", "parts": floats(0, 0, 0)}, "columns of different lengths"),
        ({"memory_ids": ONE_ID, "reasons": "", "parts": ""}, "columns of different lengths"),
        ({"memory_ids": ONE_ID, "reasons": "b", "parts": floats(0, 0, 0, 1.5)}, "not from 0 to 1"),
        ({"memory_ids": ONE_ID, "reasons": "b", "parts": floats(float("nan"), 0, 0, 0)}, "not from 0 to 1"),
        ({"memory_ids": ONE_ID, "reasons": "b", "parts": floats(0, -1e-9, 0, 0)}, "not from 0 to 1"),
        ({"memory_ids": "A", "reasons": "b", "parts": floats(0, 0, 0, 0)}, "memory_ids that are no base64"),
        ({"memory_ids": ONE_ID, "reasons": "x", "parts": floats(0, 0, 0, 0)}, "match pattern"),
        ({"memory_ids": ONE_ID, "reasons": "b", "parts": 4}, "valid string"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns: dict[str, object], fault: str) -> None:
    with pytest.raises(WireError, match=fault):
        validate(LeftOut, columns)
