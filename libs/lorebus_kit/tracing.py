"""Traces: one from a request over Kafka, through the outbox and work that is put off, to the commit of its effect.

Off unless `LOREBUS_TRACES_ENDPOINT` is set; then what is sent there needs the extra `otel`. The rule that must not
break: a span holds names, counts and ids of ours, never a text, a principal, a key or a token. A trace that somebody
begins goes on in a record as the W3C header `traceparent`. An exception is not recorded: its text may hold a value.
"""

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Final, Protocol
from uuid import UUID

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from lorebus_kit.settings import EXIT_BAD_SETTINGS

HEADER: Final = "traceparent"
EXPORT_EVERY_MS: Final = 1_000
FLUSH_MS: Final = 3_000
_W3C: Final = TraceContextTextMapPropagator()
_log: Final = logging.getLogger(__name__)

Headers = Sequence[tuple[str, bytes | None]]
Attributes = Mapping[str, str | int]

_NO_EVENTS: Final[Mapping[UUID, Span]] = {}
_EVENTS: Final[ContextVar[Mapping[UUID, Span]]] = ContextVar("lorebus_events", default=_NO_EVENTS)


class TraceSettings(Protocol):
    """What is needed of settings (`lorebus_kit.settings.ServiceSettings`)."""

    @property
    def traces_endpoint(self) -> str:
        """Where spans are sent; empty: nowhere."""

    @property
    def traces_share(self) -> float:
        """Which share of the traces that begin here is kept, in [0, 1]."""


@contextmanager
def traced_process(service: str, settings: TraceSettings) -> Iterator[None]:
    """Send the process's spans until the block ends, which waits at most 3 s for the last of them.

    Where they are asked for and the extra `otel` is not installed, the process ends as with any wrong setting.
    """
    stop = _start(service, settings) if settings.traces_endpoint else None
    try:
        yield
    finally:
        if stop is not None:
            stop()


def traceparent() -> str | None:
    """The trace that we are in, as records and outbox rows carry it; None when nobody traces."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return carrier.get(HEADER)


def traceparent_of(event_id: UUID) -> str | None:
    """The trace that an event of the batch in hand came in, whatever the others came in; None when in none."""
    span = _EVENTS.get().get(event_id)
    if span is None:
        return None
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context=trace.set_span_in_context(span, context.Context()))
    return carrier.get(HEADER)


def headers(told: str | None) -> tuple[tuple[str, bytes], ...]:
    """What a record says of the trace that it was caused in."""
    return () if told is None else ((HEADER, told.encode()),)


@contextmanager
def request(name: str, attributes: Attributes, *, asked_in: str | None) -> Iterator[Span]:
    """A span around the answering of a request; `asked_in` is its `traceparent`, if it has one."""
    with _entered(name, SpanKind.SERVER, attributes, _remote(asked_in)) as span:
        yield span


@contextmanager
def work(name: str, attributes: Attributes, *, caused_in: str | None) -> Iterator[None]:
    """A span around work that was put off, in the trace that caused it; none where nobody traced that."""
    parent = _remote(caused_in)
    if parent is None:
        yield
        return
    with _entered(name, SpanKind.CONSUMER, attributes, parent):
        yield


@contextmanager
def call(name: str, attributes: Attributes) -> Iterator[Span]:
    """A span around asking somebody else, within the trace that we are in; none that is kept where we are in none."""
    if not trace.get_current_span().get_span_context().is_valid:
        yield trace.INVALID_SPAN
        return
    with _entered(name, SpanKind.CLIENT, attributes, None) as span:
        yield span


def note(attributes: Attributes) -> None:
    """Say something of the span that we are in."""
    trace.get_current_span().set_attributes(dict(attributes))


class Told(Protocol):
    """A record as far as traces are concerned (`aiokafka.ConsumerRecord`)."""

    topic: str
    partition: int
    headers: Headers


@contextmanager
def batch(records: Sequence[Told], *, group: str) -> Iterator[Sequence[Span]]:
    """Spans around the handling of a batch: one for each record, within the trace that it came in.

    What a batch causes is caused in the one trace that it came in; where there are several, in one of its own that
    links to them.
    """
    parents = [_remote(_told(record)) for record in records]
    spans = [
        _tracer().start_span(
            f"process {record.topic}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes={
                "messaging.system": "kafka",
                "messaging.destination.name": record.topic,
                "messaging.destination.partition.id": str(record.partition),
                "messaging.consumer.group.name": group,
            },
        )
        if parent is not None
        else trace.INVALID_SPAN
        for record, parent in zip(records, parents, strict=True)
    ]
    try:
        with _current([span for span in spans if span.is_recording()], group):
            yield spans
    finally:
        for span in spans:
            span.end()


@contextmanager
def events(spans: Mapping[UUID, Span]) -> Iterator[None]:
    """Know the spans of a batch's events by their ids (`traceparent_of`); those without a trace are left out."""
    traced = {event_id: span for event_id, span in spans.items() if span.get_span_context().is_valid}
    before = _EVENTS.set(traced)
    try:
        yield
    finally:
        _EVENTS.reset(before)


@contextmanager
def _current(spans: Sequence[Span], group: str) -> Iterator[None]:
    if not spans:
        yield
    elif len(spans) == 1:
        with trace.use_span(spans[0], record_exception=False, set_status_on_exception=False):
            yield
    else:
        links = [Link(span.get_span_context()) for span in spans]
        with _tracer().start_as_current_span(
            f"batch {group}", links=links, record_exception=False, set_status_on_exception=False
        ):
            yield


def _tracer() -> trace.Tracer:
    return trace.get_tracer("lorebus")


def _told(record: Told) -> str | None:
    for name, value in record.headers:
        if name == HEADER and value is not None:
            return value.decode("ascii", "replace")
    return None


def _entered(
    name: str, kind: SpanKind, attributes: Attributes, parent: Context | None
) -> AbstractContextManager[Span]:
    """A span that we are then in; it never says what an error said, which may hold memory text."""
    return _tracer().start_as_current_span(
        name,
        context=parent,
        kind=kind,
        attributes=dict(attributes),
        record_exception=False,
        set_status_on_exception=False,
    )


def _remote(told: str | None) -> Context | None:
    """The trace that somebody else tells of; None when it is none, or cannot be read."""
    if told is None:
        return None
    remote = _W3C.extract({HEADER: told}, context=context.Context())
    return remote if trace.get_current_span(remote).get_span_context().is_valid else None


def _start(service: str, settings: TraceSettings) -> Callable[[], None]:
    try:
        # Loaded only where traces are wanted: the plain installation does without.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased  # noqa: PLC0415
    except ImportError as error:
        sys.stderr.write(
            "lorebus: LOREBUS_TRACES_ENDPOINT: traces need the extra `otel`: pip install 'lorebus[otel]'\n"
        )
        raise SystemExit(EXIT_BAD_SETTINGS) from error
    provider = TracerProvider(
        resource=Resource({"service.name": f"lorebus-{service}"}),
        sampler=ParentBased(TraceIdRatioBased(settings.traces_share)),
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(endpoint=f"{settings.traces_endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=EXPORT_EVERY_MS))
    trace.set_tracer_provider(provider)
    _log.info("tracing", extra={"share": settings.traces_share})

    def stop() -> None:
        try:
            provider.force_flush(FLUSH_MS)
        finally:
            provider.shutdown()

    return stop
