"""Which trace goes on, where several come in at once or none does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from opentelemetry import trace

from lorebus_kit import tracing

ANNS: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
BOBS: Final = "00-5b8aa5a2d2c872e8321cf37308d69df2-051581bf3cb55c13-01"
ANN, BOB, EVE = (UUID(int=number) for number in (1, 2, 3))


@dataclass(slots=True)
class Told:
    """A record as far as traces are concerned."""

    headers: Sequence[tuple[str, bytes | None]]
    topic: str = "session.ended"
    partition: int = 0


def record(traceparent: str | None) -> Told:
    return Told(tracing.headers(traceparent))


def test_each_event_of_a_batch_goes_on_in_the_trace_that_it_came_in() -> None:
    with (
        tracing.batch([record(ANNS), record(BOBS), record(None)], group="lorebus.distill") as spans,
        tracing.events(dict(zip((ANN, BOB, EVE), spans, strict=True))),
    ):
        found = [tracing.traceparent_of(event_id) for event_id in (ANN, BOB, EVE)]

    assert found == [ANNS, BOBS, None]


def test_outside_of_its_batch_an_event_has_no_trace() -> None:
    with tracing.batch([record(ANNS)], group="lorebus.distill") as spans, tracing.events({ANN: spans[0]}):
        pass

    assert tracing.traceparent_of(ANN) is None


def test_work_that_was_put_off_goes_on_in_the_trace_that_caused_it() -> None:
    with tracing.work("agents.memory-distill", {}, caused_in=ANNS), tracing.call("chat model", {}):
        assert tracing.traceparent() == ANNS


def test_work_that_nobody_traced_and_what_it_calls_begin_no_trace() -> None:
    with tracing.work("agents.memory-distill", {}, caused_in=None), tracing.call("chat model", {}) as span:
        tracing.note({"lorebus.outcome": "finished"})
        assert tracing.traceparent() is None

    assert span is trace.INVALID_SPAN
