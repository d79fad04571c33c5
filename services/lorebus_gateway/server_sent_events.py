"""Server-sent events as they go over the wire (HTML Living Standard, section 9.2)."""

from typing import Final

EVENT_STREAM: Final = "text/event-stream"
HEARTBEAT: Final = b": heartbeat\n\n"
"""A comment, which clients do not see: it keeps proxies from closing a quiet stream, and finds out who has gone."""
HEARTBEAT_SECONDS: Final = 15.0


def server_sent_event(name: str, data: bytes, *, event_id: str | None = None) -> bytes:
    """One event; `data` is JSON on one line."""
    told_id = b"" if event_id is None else b"id: " + event_id.encode() + b"\n"
    return b"event: " + name.encode() + b"\n" + told_id + b"data: " + data + b"\n\n"
