"""A collector of traces: takes what is sent by OTLP over HTTP, and keeps it as it came."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Seen(NamedTuple):
    """A span as it was sent."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, str]


class Collector:
    """What was sent so far, raw and read."""

    def __init__(self) -> None:
        self.raw: Final[list[bytes]] = []
        self.port = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def spans(self) -> list[Seen]:
        """Every span, in the order in which they came."""
        return [span for body in tuple(self.raw) for span in _read(body)]

    def named(self, name: str) -> list[Seen]:
        """The spans of this name."""
        return [span for span in self.spans() if span.name == name]


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port, gone afterwards."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            collector.raw.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - As the base class has it.
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _read(body: bytes) -> Iterator[Seen]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        facts = {one.key: one.value.string_value for one in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Seen(
                    service=facts["service.name"],
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    attributes={
                        one.key: one.value.string_value or str(one.value.int_value) for one in span.attributes
                    },
                )
