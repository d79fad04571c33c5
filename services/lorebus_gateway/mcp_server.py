"""MCP over streamable HTTP, by the SDK: imported when the first client comes (`mcp_endpoint.py`).

The rule that must not break: every call is answered for the credentials of its own request, and what goes wrong comes
back as the problem document that HTTP would have answered with.
"""

import logging
from collections.abc import Mapping
from time import perf_counter
from typing import Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult
from starlette.requests import Request

from lorebus_domain import policy
from lorebus_gateway import metrics
from lorebus_gateway.answers import Answer
from lorebus_gateway.bodies import header
from lorebus_gateway.problems import KNOWN_ERRORS, problem_answer
from lorebus_gateway.services import Services
from lorebus_gateway.tools import answer_tool
from lorebus_kit.mcp_protocol import Context, mcp_server, tool_result

_FIRST_ERROR: Final = 400
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_log: Final = logging.getLogger(__name__)


def session_manager(services: Services, *, http_host: str) -> StreamableHTTPSessionManager:
    """The transport. It keeps no sessions, so that any gateway can answer any request."""
    return StreamableHTTPSessionManager(
        mcp_server(_ToolCalls(services)),
        stateless=True,
        security_settings=_transport_security(http_host),
        max_request_body_size=policy.MAX_BODY_BYTES,
    )


class _ToolCalls:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, context: Context, name: str, arguments: Mapping[str, object]) -> CallToolResult:
        began = perf_counter()
        try:
            given = await self._answer(context, name, arguments)
        except KNOWN_ERRORS as error:
            given = problem_answer(error)
        except Exception as error:  # noqa: BLE001 - As Starlette does for the routes.
            # The SDK would tell a client of before 2026-07-28 the error's own text.
            _log.exception("tool failed", extra={"tool": name})
            given = problem_answer(error)
        metrics.TOOL_CALLS.labels(name, given.status).inc()
        metrics.TOOL_SECONDS.labels(name).observe(perf_counter() - began)
        return tool_result(given.body, is_error=given.status >= _FIRST_ERROR)

    async def _answer(self, context: Context, name: str, arguments: Mapping[str, object]) -> Answer:
        return await answer_tool(
            name,
            arguments,
            authorization=_authorization(context.request),
            services=self._services,
            tell=context.session.report_progress,
        )


def _authorization(request: Request | None) -> bytes | None:
    return None if request is None else header(request.scope, b"authorization")


def _transport_security(http_host: str) -> TransportSecuritySettings:
    """On loopback only what a program of this machine would ask for: a web page must not get in by a name of its own.

    Elsewhere a proxy decides which names there are, and a page has no key to show.
    """
    if http_host.strip("[]") not in {"127.0.0.1", "localhost", "::1"}:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    hosts = [*_LOOPBACK, *(f"{host}:*" for host in _LOOPBACK)]
    return TransportSecuritySettings(
        allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
    )
