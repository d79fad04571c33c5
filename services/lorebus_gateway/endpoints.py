"""Routes and how a request to one is answered: authenticate, read, parse, handle, send.

The rule that must not break: a handler sees only a verified principal and a validated input, and whatever is
refused on the way becomes a problem document.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar
from uuid import UUID

from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from lorebus_contracts import wire
from lorebus_contracts.http import NoInput
from lorebus_contracts.problems import ProblemKind
from lorebus_contracts.wire import WireModel
from lorebus_gateway import metrics
from lorebus_gateway.answers import Answer, Stream, send_answer, send_stream
from lorebus_gateway.authentication import Authenticator, Organization, credential_hash
from lorebus_gateway.bodies import header, read_body, read_query
from lorebus_gateway.errors import NotFoundError
from lorebus_gateway.idempotency import AS_IT_IS, Keeping, Once, idempotency_key, once
from lorebus_gateway.key_scopes import ADMIN, Scopes, require_scopes
from lorebus_gateway.problems import KNOWN_ERRORS, method_not_allowed, problem_answer
from lorebus_gateway.services import Services
from lorebus_gateway.uploads import Upload, uploaded
from lorebus_kit import tracing
from lorebus_kit.tokens import SessionClaims

_ACCEPTED: Final = 202
_NOTHING_ASKED: Final = b"{}"
"""Where a POST asks for nothing, it may come without a body."""
_FIRST_SERVER_ERROR: Final = 500
_CLIENT_GONE: Final = 499
"""What a request is counted as whose client did not wait for its answer; such a status is never sent."""
_log: Final = logging.getLogger(__name__)

Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]
PrincipalT = TypeVar("PrincipalT")
InputT = TypeVar("InputT", bound=WireModel)


@dataclass(frozen=True, slots=True)
class Call(Generic[PrincipalT, InputT]):
    """One request to a route: who makes it, what it says, and when it came.

    `once` is its `Idempotency-Key`, `last_event_id` where a client of server-sent events was, `upload` its file.
    """

    principal: PrincipalT
    input: InputT
    path: Mapping[str, str]
    now: datetime
    once: Once | None = None
    last_event_id: str | None = None
    upload: Upload | None = None

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

    `input` is the body of a POST or PUT and the query of a GET or DELETE; `answers` are the successes, and
    `problems` what else it may answer than what every route may. `streams` are the events of a route that goes on
    answering, by name; `writes` are the lines of a file that it answers with, `reads` those of one that comes as its
    body: the input is then the query. `keeping` is for an answer with a secret, which is not kept with an
    `Idempotency-Key`. `scopes` is what an API key must be for, and `scopes_of` what else it must be for to ask this.
    """

    method: Method
    path: str
    access: Callable[[Authenticator, bytes | None], Awaitable[PrincipalT]]
    input: type[InputT]
    answers: Mapping[int, type[WireModel] | None]
    handler: Callable[[Call[PrincipalT, InputT], Services], Awaitable[Answer | Stream]]
    summary: str
    scopes: Scopes = ADMIN
    scopes_of: Callable[[InputT], Scopes] | None = None
    problems: tuple[ProblemKind, ...] = ()
    streams: Mapping[str, type[WireModel]] | None = None
    writes: type[BaseModel] | None = None
    reads: type[BaseModel] | None = None
    keeping: Callable[[Call[PrincipalT, InputT], Services], Keeping] | None = None

    @property
    def has_body(self) -> bool:
        """Whether the input comes as a body; else it is the query."""
        return self.method in {"POST", "PUT"} and self.reads is None


AnyRoute: TypeAlias = Route[Any, Any]
"""A row whatever its types: its handler was checked against them where the row was written."""


async def admit(
    access: Callable[[Authenticator, bytes | None], Awaitable[PrincipalT]],
    scopes: Scopes,
    authorization: bytes | None,
    services: Services,
) -> PrincipalT:
    """Who makes a request; `authorization` is its header. Its credentials are sound, within their limit, and for this.

    Raises:
        NotAuthenticatedError: there are no sound credentials for this.
        ForbiddenError: the API key is not for all of `scopes`.
        TooManyRequestsError: they have made as many requests as they may for now.
        TransientError: an API key is not remembered and the database is away.
    """
    principal = await access(services.authenticator, authorization)
    if services.rate_limit.is_on and isinstance(principal, Organization | SessionClaims):
        await services.rate_limit.check(principal.organization_uuid, credential_hash(authorization))
    require_scopes(principal, scopes)
    return principal


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
        told = header(scope, b"traceparent")
        attributes = {"http.request.method": self._route.method, "http.route": self._route.path}
        with tracing.request(
            f"{self._route.method} {self._route.path}",
            attributes,
            asked_in=None if told is None else told.decode("latin-1"),
        ) as span:
            span.set_attribute("http.response.status_code", await self._respond(scope, receive, send))

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> int:
        began = perf_counter()
        # What nobody here knows how to answer is answered 500 by whoever called us, and counts as that.
        status = _FIRST_SERVER_ERROR
        try:
            given = await self._given(scope, receive)
            status = given.status
            if isinstance(given, Stream):
                await send_stream(given, scope, receive, send)
            else:
                await send_answer(given, send)
        except ClientDisconnect:
            status = _CLIENT_GONE
        finally:
            metrics.REQUESTS.labels(self._route.method, self._route.path, status).inc()
            self._seconds.observe(perf_counter() - began)
        return status

    async def _given(self, scope: Scope, receive: Receive) -> Answer | Stream:
        """The answer, or the problem that a request is refused with.

        Raises:
            ClientDisconnect: nobody waits for an answer any more.
        """
        try:
            return await self._answer(scope, receive)
        except KNOWN_ERRORS as error:
            refused = problem_answer(error)
            self._log_refusal(refused.status, error)
            return refused

    async def _answer(self, scope: Scope, receive: Receive) -> Answer | Stream:
        route, services = self._route, self._services
        authorization = header(scope, b"authorization")
        principal = await admit(route.access, route.scopes, authorization, services)
        if route.reads is not None:
            return await self._answer_file(principal, scope, receive)
        if not route.has_body:
            parsed = wire.validate(route.input, read_query(scope))
            call = Call(principal, parsed, scope["path_params"], _now(), last_event_id=_last_event_id(scope))
            return await route.handler(call, services)
        body = await read_body(scope, receive, seconds=services.body_seconds)
        asked = wire.parse(route.input, _NOTHING_ASKED if route.input is NoInput and not body else body)
        if route.scopes_of is not None:
            # Before a kept answer is looked for, which another key of the organization may have been given.
            require_scopes(principal, route.scopes_of(asked))
        call = Call(principal, asked, scope["path_params"], _now())
        key = idempotency_key(scope) if route.method == "POST" else None
        given = await (route.handler(call, services) if key is None else self._once(call, key, body))
        if given.status == _ACCEPTED and isinstance(given, Answer):
            return await services.waiting.preferred(given, principal, scope)
        return given

    async def _answer_file(self, principal: Any, scope: Scope, receive: Receive) -> Answer:  # noqa: ANN401 - As the route's.
        parsed = wire.validate(self._route.input, read_query(scope))
        key = idempotency_key(scope)
        async with uploaded(scope, receive, seconds=self._services.body_seconds) as upload:
            call = Call(principal, parsed, scope["path_params"], _now(), upload=upload)
            if key is not None:
                return await self._once(call, key, scope["query_string"] + upload.digest)
            return self._in_one_piece(await self._route.handler(call, self._services))

    async def _once(self, call: Call[Any, Any], key: str, body: bytes) -> Answer:
        """The answer to a POST with an `Idempotency-Key`: the first one again, if there was one."""
        route, services = self._route, self._services

        async def work(request: Once) -> Answer:
            return self._in_one_piece(await route.handler(replace(call, once=request), services))

        request = once(
            key,
            organization_uuid=call.principal.organization_uuid,
            session_uuid=getattr(call.principal, "session_uuid", None),
            route=f"{route.method} {route.path}",
            path=call.path,
            body=body,
        )
        keeping = AS_IT_IS if route.keeping is None else route.keeping(call, services)
        return await services.idempotency.answer(request, work, keeping)

    def _in_one_piece(self, given: Answer | Stream) -> Answer:
        if not isinstance(given, Answer):
            raise TypeError(f"{self._route.method} {self._route.path} is answered in one piece")
        return given

    def _log_refusal(self, status: int, error: Exception) -> None:
        if status >= _FIRST_SERVER_ERROR:
            facts = {"route": self._route.path, "status": status, "error_type": type(error).__name__}
            _log.warning("request not served", extra=facts)


def _last_event_id(scope: Scope) -> str | None:
    """Where a client of server-sent events says it was; what is none of our ids is told so by the handler."""
    told = header(scope, b"last-event-id")
    return told.decode("latin-1") if told else None


def _now() -> datetime:
    return datetime.now(UTC)
