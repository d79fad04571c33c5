"""Bodies of events for these tests: sound ones, to be made unsound in one place."""

import json

IDS = {
    "event_id": "0199f1a2-0000-7000-8000-000000000001",
    "organization_uuid": "00000000-0000-4000-8000-0000000000a1",
    "agent_config_uuid": "00000000-0000-4000-8000-0000000000c1",
    "session_uuid": "00000000-0000-4000-8000-0000000000e1",
}
ENVELOPE = {**IDS, "schema_version": 1, "occurred_at": "2026-09-01T11:00:00Z"}


def save_body(**changes: object) -> bytes:
    """A `memory.save-requested` with one entry, for a known end user."""
    body = {
        **ENVELOPE,
        "caller": {"kind": "end_user", "ref": "bob"},
        "principal_ref": "bob",
        "entries": [{"text": "likes aisle seats", "importance": 0.7}],
        "origin": "runner",
    }
    return json.dumps({**body, **changes}).encode()


def ended_body(**changes: object) -> bytes:
    """A `session.ended` without a trace."""
    body = {
        **ENVELOPE,
        "caller": {"kind": "none"},
        "outcome": "success",
        "task": "book a flight",
        "step_count": 3,
    }
    return json.dumps({**body, **changes}).encode()


def recall_body(**changes: object) -> bytes:
    """A `recall.recorded` of a pack that handed out nothing."""
    body = {
        **ENVELOPE,
        "caller": {"kind": "none"},
        "requested_strategy": "pack",
        "strategy": "pack",
        "top_k": 10,
        "cue": "book a flight",
        "budget_used_chars": 0,
        "entries": [],
    }
    return json.dumps({**body, **changes}).encode()


def without(body: bytes, key: str) -> bytes:
    """The body without one of its keys."""
    return json.dumps({name: value for name, value in json.loads(body).items() if name != key}).encode()


def save_with_importance(literal: str) -> bytes:
    """A save whose one importance is written exactly so."""
    return save_body(entries=[{"text": "likes aisle seats", "importance": "@"}]).replace(
        b'"@"', literal.encode()
    )


def ended_with_input(literal: str) -> bytes:
    """A session end whose one call of a tool has this input, written exactly so."""
    return ended_body(trace=[{"tool": "search", "input": "@"}]).replace(b'"@"', literal.encode())
