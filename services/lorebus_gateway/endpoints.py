"""Routes and how a request to one is answered: authenticate, read, parse, handle, send.

The rule that must not break: a handler sees only a verified principal and a validated input, and whatever is
refused on the way becomes a problem document.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar
from uuid import UUID

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from lorebus_contracts import wire
from lorebus_contracts.problems import ProblemKind
from lorebus_contracts.wire import WireModel
from lorebus_gateway import metrics
from lorebus_gateway.answers import Answer, send_answer
from lorebus_gateway.authentication import Authenticator
from lorebus_gateway.bodies import header, read_body, read_query
from lorebus_gateway.errors import NotFoundError
from lorebus_gateway.problems import KNOWN_ERRORS, method_not_allowed, problem_answer
from lorebus_gateway.services import Services

_FIRST_SERVER_ERROR: Final = 500
_log: Final = logging.getLogger(__name__)

Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]
PrincipalT = TypeVar("PrincipalT")
InputT = TypeVar("InputT", bound=WireModel)


@dataclass(frozen=True, slots=True)
class Call(Generic[PrincipalT, InputT]):
    """One request to a route: who makes it, what it says, and when it came."""

    principal: PrincipalT
    input: InputT
    path: Mapping[str, str]
    now: datetime

    def uuid(self, name: str) -> UUID:
        """The part `name` of the path.

        Raises:
            NotFoundError: it is no UUID, so nothing can be there.
        """
        try:
            return UUID(self.path[name])
        except ValueError as error:
            raise NotFoundError from error


@dataclass(frozen=True, slots=True)
class Route(Generic[PrincipalT, InputT]):
    """A row of the route table; the OpenAPI document is made from it as well.

    `input` is the body of a POST or PUT and the query of a GET or DELETE; `answers` are the successes,
    and `problems` what else it may answer than what every route may.
    """

    method: Method
    path: str
    access: Callable[[Authenticator, bytes | None], Awaitable[PrincipalT]]
    input: type[InputT]
    answers: Mapping[int, type[WireModel] | None]
    handler: Callable[[Call[PrincipalT, InputT], Services], Awaitable[Answer]]
    summary: str
    problems: tuple[ProblemKind, ...] = ()

    @property
    def has_body(self) -> bool:
        """Whether the input comes as a body; else it is the query."""
        return self.method in {"POST", "PUT"}


AnyRoute: TypeAlias = Route[Any, Any]
"""A row whatever its types: its handler was checked against them where the row was written."""


class PathEndpoint:
    """The ASGI application of one path: its routes by method; HEAD is answered as GET."""

    def __init__(self, routes: Sequence[AnyRoute], services: Services) -> None:
        self._endpoints: dict[str, _Endpoint] = {route.method: _Endpoint(route, services) for route in routes}
        self._allow = ", ".join(sorted(self._endpoints))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint = self._endpoints.get(method)
        if endpoint is None:
            await send_answer(method_not_allowed(self._allow), send)
            return
        await endpoint.respond(scope, receive, send)


class _Endpoint:
    def __init__(self, route: AnyRoute, services: Services) -> None:
        self._route = route
        self._services = services
        self._seconds = metrics.REQUEST_SECONDS.labels(route.method, route.path)

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = perf_counter()
        try:
            given = await self._answer(scope, receive)
        except KNOWN_ERRORS as error:
            given = problem_answer(error)
            self._log_refusal(given, error)
        except ClientDisconnect:
            return
        await send_answer(given, send)
        metrics.REQUESTS.labels(self._route.method, self._route.path, given.status).inc()
        self._seconds.observe(perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        route, services = self._route, self._services
        principal = await route.access(services.authenticator, header(scope, b"authorization"))
        parsed = await self._input(scope, receive)
        call = Call(principal, parsed, scope["path_params"], datetime.now(UTC))
        return await route.handler(call, services)

    async def _input(self, scope: Scope, receive: Receive) -> WireModel:
        if self._route.has_body:
            parsed: WireModel = wire.parse(self._route.input, await read_body(scope, receive))
        else:
            parsed = wire.validate(self._route.input, read_query(scope))
        return parsed

    def _log_refusal(self, given: Answer, error: Exception) -> None:
        if given.status >= _FIRST_SERVER_ERROR:
            facts = {"route": self._route.path, "status": given.status, "error_type": type(error).__name__}
            _log.warning("request not served", extra=facts)
