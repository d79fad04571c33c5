"""A refusal says what is wrong and where, and never quotes what was sent."""

import json
from typing import Any
from uuid import uuid4

import pytest

from tests.support.gateways import Asking
from tests.support.outputs import CANARY, OUTPUTS

LONG = f"{CANARY} " * 1_000
APP = "/api/app/agents"
SOME = "0190a000-0000-7000-8000-00000000abcd"
SAID = [
    CANARY,
    f"lrb_{'k' * 43}",
    f"eyJ{'h' * 20}.eyJ{'p' * 20}.{'s' * 43}",
    LONG,
    {"why": CANARY},
    [[CANARY]],
]
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", f"{APP}/sessions"): {"agent_config_uuid": None, "caller": None, "task": None},
    ("POST", f"{APP}/sessions/{SOME}/end"): {"outcome": None, "step_count": None, "trace": None},
    ("POST", f"{APP}/sessions/{SOME}/rating"): {"quality_score": None},
    ("POST", f"{APP}/memory/prune"): {"agent_config_uuid": None, "max_entries": None},
    ("POST", f"{APP}/memory/erase"): {"principal_ref": None, "session_uuid": None},
    ("POST", f"{APP}/memory/distill/preview"): {"outcome": None, "trace": None},
    ("POST", f"{APP}/memory/import?agent_config_uuid={SOME}"): {"format": None, "text": None},
    ("PUT", f"{APP}/configs/{SOME}"): {"memory_strategy": None, "memory_top_k": None},
    ("PUT", "/api/app/organization"): {"memory_enabled": None},
    ("POST", "/api/workflows/start"): {"workflow_type": None, "initial_data": None},
}


@pytest.mark.parametrize(("method", "path"), BODIES)
async def test_a_body_that_is_refused_is_not_quoted(gateway: Asking, method: str, path: str) -> None:
    searched = OUTPUTS.searched
    for said in SAID:
        body = dict.fromkeys(BODIES[method, path], said)
        for content in (json.dumps(body).encode(), json.dumps(body).encode()[:-1]):
            headers = {"content-type": "application/x-ndjson" if "import" in path else "application/json"}
            answer = await gateway.ask(method, path, content=content, headers=headers)
            assert answer.status_code in {404, 422}, answer.text

    assert OUTPUTS.searched > searched


async def test_a_sessions_body_that_is_refused_is_not_quoted(gateway: Asking) -> None:
    session = await gateway.session(await gateway.config())

    for said in SAID:
        for what, body in (
            ("save", {"entries": [{"text": LONG * 2, "importance": said}]}),
            ("load", {"cue": LONG * 200, "strategy": said, "top_k": said}),
        ):
            path = f"/api/agents/sessions/{session.uuid}/memory-{what}"
            answer = await gateway.ask("POST", path, token=session.token, json=body)
            assert answer.status_code in {413, 422}, answer.text


async def test_a_query_and_a_path_that_are_refused_are_not_quoted(gateway: Asking) -> None:
    for said in (CANARY, f"lrb_{'k' * 43}", LONG[:300]):
        query = {"agent_config_uuid": said, "min_importance": said, "page": said, "state": said}
        listed = await gateway.ask("GET", f"{APP}/memory", params=query)
        deleted = await gateway.ask("DELETE", f"{APP}/memory/{said}")
        run = await gateway.ask("GET", f"/api/workflows/{said}")

        assert [answer.status_code for answer in (listed, deleted, run)] == [422, 404, 404]


@pytest.mark.parametrize("said", [f"lrb_{'k' * 43}", f"eyJ{'h' * 20}.eyJ{'p' * 20}.{'s' * 43}"])
async def test_credentials_that_are_refused_are_not_quoted(gateway: Asking, said: str) -> None:
    by_key = await gateway.ask("GET", "/api/app/organization", key=said)
    by_token = await gateway.ask("GET", f"/api/workflows/{uuid4()}", token=said)

    assert [answer.status_code for answer in (by_key, by_token)] == [401, 401]
