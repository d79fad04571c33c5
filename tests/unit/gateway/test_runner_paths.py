"""The shorter way to a runner's paths answers as the longer one would."""

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from lorebus_gateway.runner_paths import Application

SAVE = "/api/agents/sessions/{session_ref}/memory-save"
OTHER = "/api/workflows/{workflow_id}"


async def tell_parameters(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path_params"] == {"session_ref": "bad"}:
        raise RuntimeError("nobody foresaw this")
    await PlainTextResponse(repr(sorted(scope["path_params"].items())))(scope, receive, send)


class Endpoint:
    """As the gateway's: an application of its own, which Starlette hands every method."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await tell_parameters(scope, receive, send)


def sorry(_request: Request, _error: Exception) -> Response:
    return PlainTextResponse("sorry", 500)


@pytest.fixture
def client() -> TestClient:
    endpoints = {SAVE: Endpoint(), OTHER: Endpoint()}
    app = Application(
        endpoints,
        on_error=sorry,
        routes=[Route(path, endpoint) for path, endpoint in endpoints.items()],
        exception_handlers={Exception: sorry},
    )
    app.router.redirect_slashes = False
    return TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/api/agents/sessions/one/memory-save", 200, "[('session_ref', 'one')]"),
        ("/api/agents/sessions/%C3%A9%20/memory-save", 200, "[('session_ref', 'é ')]"),
        ("/api/workflows/two", 200, "[('workflow_id', 'two')]"),
        ("/api/agents/sessions/bad/memory-save", 500, "sorry"),
        ("/api/agents/sessions//memory-save", 404, "Not Found"),
        ("/api/agents/sessions/one/memory-save/", 404, "Not Found"),
        ("/api/agents/sessions/one/two/memory-save", 404, "Not Found"),
        ("/api/agents/sessions/one", 404, "Not Found"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_path_is_answered_by_its_endpoint_with_its_parameters(
    client: TestClient, method: str, path: str, status: int, text: str
) -> None:
    answer = client.request(method, path)

    assert (answer.status_code, answer.text) == (status, text)
