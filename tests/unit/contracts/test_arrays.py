"""Long arrays of bad items cost no more than short ones, and are told as they would be one by one."""

import tracemalloc
from typing import Any

import pytest
from pydantic import BaseModel

from lorebus_contracts import wire
from lorebus_contracts.events import RecallRecorded, SaveRequested, SessionEnded
from lorebus_contracts.http import EndBody, SaveBody
from lorebus_contracts.wire import Fault, WireError

ENDED = {"outcome": "success", "step_count": 2}


def faults_of(model: type[BaseModel], value: dict[str, Any]) -> tuple[Fault, ...]:
    with pytest.raises(WireError) as refused:
        wire.validate(model, value)
    return refused.value.faults


@pytest.mark.parametrize("item", [1, None, "text", {}, [], {"text": 1}])
@pytest.mark.parametrize(
    ("model", "field", "rest"),
    [(SaveBody, "entries", {}), (EndBody, "trace", ENDED)],
)
def test_a_million_bad_items_are_told_twenty_of_and_take_no_memory(
    model: type[BaseModel], field: str, rest: dict[str, Any], item: object
) -> None:
    value = {**rest, field: [item] * 1_000_000}
    tracemalloc.start()
    try:
        faults = faults_of(model, value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(faults) == 20
    assert peak < 4_000_000


@pytest.mark.parametrize("model", [SaveRequested, SessionEnded, RecallRecorded])
def test_the_same_holds_on_the_bus(model: type[BaseModel]) -> None:
    arrays = {"entries": [1] * 100_000, "trace": [1] * 100_000, "passed_over": [1] * 100_000}

    assert len(faults_of(model, {name: arrays[name] for name in arrays if name in model.model_fields})) == 20


def test_every_fault_of_an_item_is_told_with_its_place() -> None:
    good = {"text": "good"}
    entries = [good, {"text": 7, "importance": 2}, good, {"weight": 1}, "text"]

    assert faults_of(SaveBody, {"entries": entries}) == (
        Fault("entries.1.text", "should be a valid string"),
        Fault("entries.1.importance", "should be less than or equal to 1"),
        Fault("entries.3.text", "is required"),
        Fault("entries.3.weight", "is not a known key"),
        Fault("entries.4", "should be a JSON object"),
    )


def test_a_text_that_is_too_long_is_told_with_its_length() -> None:
    (fault,) = faults_of(SaveBody, {"entries": [{"text": "x" * 10_001}]})

    assert fault.path == "entries.0.text"
    assert "10001" in fault.problem


def test_an_array_of_another_length_is_told_as_a_whole() -> None:
    assert [fault.path for fault in faults_of(SaveBody, {"entries": [{"text": "a"}] * 101})] == ["entries"]
    assert [fault.path for fault in faults_of(SaveBody, {"entries": []})] == ["entries"]


@pytest.mark.parametrize("value", [{}, "text", 7, {"0": {"text": "a"}}])
def test_what_is_no_array_is_told_so(value: object) -> None:
    assert [fault.path for fault in faults_of(SaveBody, {"entries": value})] == ["entries"]
