"""What a load handed out, as columns."""

from base64 import b64encode

import pytest

from lorebus_contracts.events import RecallRecorded
from lorebus_contracts.handed_out import HandedOutColumns, handed_out_columns
from lorebus_contracts.wire import WireError, parse, validate
from tests.unit.contracts.bodies import recall_body
from tests.unit.contracts.columns import FIRST, ONE_ID, SECOND, floats


def test_columns_tell_each_entry_in_its_order() -> None:
    columns = HandedOutColumns(
        **handed_out_columns([SECOND, FIRST], [0.1 + 0.2, 1.0], [(0.9, 1.0, 1e-9), (0.5, 0.25, 0.0)])
    )

    assert columns.ids() == SECOND.bytes + FIRST.bytes
    assert columns.importance_values() == (0.30000000000000004, 1.0)
    assert columns.part_values() == (0.9, 1.0, 1e-9, 0.5, 0.25, 0.0)


def test_without_scores_there_are_no_parts() -> None:
    columns = HandedOutColumns(**handed_out_columns([FIRST], [0.5], []))

    assert columns.parts is None
    assert columns.part_values() == ()


def test_no_entries_are_empty_columns() -> None:
    assert handed_out_columns([], [], []) == {"memory_ids": "", "importances": ""}
    assert HandedOutColumns(memory_ids="", importances="").ids() == b""


def test_a_recall_told_entry_by_entry_has_no_columns() -> None:
    assert parse(RecallRecorded, recall_body()).handed_out is None


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"importances": ""}, "columns of different lengths"),
        ({"importances": floats(0, 0)}, "columns of different lengths"),
        ({"memory_ids": b64encode(b"short").decode()}, "columns of different lengths"),
        ({"parts": floats(0, 0)}, "columns of different lengths"),
        ({"parts": ""}, "columns of different lengths"),
        ({"parts": floats(0, 0, 1.5)}, "not from 0 to 1"),
        ({"parts": floats(0, float("nan"), 0)}, "not from 0 to 1"),
        ({"importances": floats(float("nan"))}, "not from 0 to 1"),
        ({"importances": floats(-1e-9)}, "not from 0 to 1"),
        ({"memory_ids": "A"}, "memory_ids that are no base64"),
        ({"importances": "?"}, "match pattern"),
        ({"memory_ids": 4}, "valid string"),
    ],
)
def test_columns_that_do_not_fit_are_refused(changes: dict[str, object], fault: str) -> None:
    columns = {"memory_ids": ONE_ID, "importances": floats(0.5)}

    with pytest.raises(WireError, match=fault):
        validate(HandedOutColumns, columns | changes)
