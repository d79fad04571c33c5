"""The MCP tools at work: who may call which, and the route's own handler that answers it.

The rule that must not break: a tool answers what HTTP answers to the same principal and input, because the same handler
does; only waiting for a run and `whoami` have no route.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeAlias, TypeVar, assert_never

from lorebus_contracts import mcp_tools, wire
from lorebus_contracts.events import CallerBody
from lorebus_contracts.http import LoadBody, NoInput, SaveBody
from lorebus_contracts.http_answers import WhoAmI
from lorebus_contracts.mcp_tools import RunInput, ToolDefinition, TypeInput, WatchInput
from lorebus_contracts.wire import WireModel
from lorebus_gateway import session_handlers, workflow_handlers
from lorebus_gateway.answers import Answer, answer
from lorebus_gateway.authentication import Authenticator, Organization
from lorebus_gateway.endpoints import Call, admit
from lorebus_gateway.key_scopes import ADMIN, NONE, READ, Scopes, of_starting, require_scopes
from lorebus_gateway.run_status import Asker
from lorebus_gateway.services import Services
from lorebus_gateway.waiting import Tell
from lorebus_kit.tokens import SessionClaims

PrincipalT = TypeVar("PrincipalT")
InputT = TypeVar("InputT", bound=WireModel)


@dataclass(frozen=True, slots=True)
class Tool(Generic[PrincipalT, InputT]):
    """A tool with who may call it and what answers it; `scopes` and `scopes_of` as a route's."""

    definition: ToolDefinition[InputT]
    access: Callable[[Authenticator, bytes | None], Awaitable[PrincipalT]]
    handler: Callable[[Call[PrincipalT, InputT], Services, Tell], Awaitable[Answer]]
    scopes: Scopes = ADMIN
    scopes_of: Callable[[InputT], Scopes] | None = None


AnyTool: TypeAlias = Tool[Any, Any]
"""A tool whatever its types: its handler was checked against them where it was bound."""


async def answer_tool(
    name: str, arguments: Mapping[str, object], *, authorization: bytes | None, services: Services, tell: Tell
) -> Answer:
    """Carry out a tool that there is: admit, parse, handle.

    Raises:
        Whatever `lorebus_gateway.problems` knows: the credentials, the arguments or the tool's own handler.
    """
    tool = TOOLS[name]
    principal = await admit(tool.access, tool.scopes, authorization, services)
    parsed = wire.validate(tool.definition.input, arguments)
    if tool.scopes_of is not None:
        require_scopes(principal, tool.scopes_of(parsed))
    return await tool.handler(Call(principal, parsed, {}, datetime.now(UTC)), services, tell)


def _as_routed(
    handler: Callable[[Call[PrincipalT, InputT], Services], Awaitable[Answer]],
) -> Callable[[Call[PrincipalT, InputT], Services, Tell], Awaitable[Answer]]:
    """The handler of a route, which tells no progress."""

    async def answered(call: Call[PrincipalT, InputT], services: Services, _tell: Tell) -> Answer:
        return await handler(call, services)

    return answered


def _with_path(call: Call[PrincipalT, Any], given: InputT, **path: object) -> Call[PrincipalT, InputT]:
    """The call as its route would have it."""
    return Call(call.principal, given, {name: str(part) for name, part in path.items()}, call.now)


async def _whoami(call: Call[Asker, NoInput], _services: Services, _tell: Tell) -> Answer:
    match call.principal:
        case Organization(organization_uuid, _, scopes):
            told = WhoAmI(
                kind="organization", organization_uuid=organization_uuid, scopes=tuple(sorted(scopes))
            )
        case SessionClaims(organization_uuid, agent_config_uuid, session_uuid, caller):
            told = WhoAmI(
                kind="session",
                organization_uuid=organization_uuid,
                agent_config_uuid=agent_config_uuid,
                session_uuid=session_uuid,
                caller=CallerBody.of(caller),
            )
        case _:
            assert_never(call.principal)
    return answer(200, told)


async def _get_schema(call: Call[None, TypeInput], services: Services, _tell: Tell) -> Answer:
    routed = _with_path(call, NoInput(), workflow_type=call.input.workflow_type)
    return await workflow_handlers.get_workflow_schema(routed, services)


async def _get_status(call: Call[Asker, RunInput], services: Services, _tell: Tell) -> Answer:
    routed = _with_path(call, NoInput(), workflow_id=call.input.workflow_id)
    return await workflow_handlers.get_workflow(routed, services)


async def _get_history(call: Call[Asker, RunInput], services: Services, _tell: Tell) -> Answer:
    routed = _with_path(call, NoInput(), workflow_id=call.input.workflow_id)
    return await workflow_handlers.get_workflow_history(routed, services)


async def _watch(call: Call[Asker, WatchInput], services: Services, tell: Tell) -> Answer:
    run = await services.run_status.snapshot(call.principal, call.input.workflow_id, now=call.now)
    seconds = call.input.timeout_seconds
    return answer(200, await services.waiting.until_ended(call.principal, run, seconds=seconds, tell=tell))


async def _recall(call: Call[SessionClaims, LoadBody], services: Services, _tell: Tell) -> Answer:
    routed = _with_path(call, call.input, session_ref=call.principal.session_uuid)
    return await session_handlers.load_memory(routed, services)


async def _remember(call: Call[SessionClaims, SaveBody], services: Services, _tell: Tell) -> Answer:
    routed = _with_path(call, call.input, session_ref=call.principal.session_uuid)
    return await session_handlers.save_memory(routed, services)


_EITHER: Final = Authenticator.session_or_organization

TOOLS: Final[Mapping[str, AnyTool]] = {
    tool.definition.name: tool
    for tool in (
        Tool(mcp_tools.RECALL, Authenticator.session, _recall),
        Tool(mcp_tools.REMEMBER, Authenticator.session, _remember),
        Tool(mcp_tools.WHOAMI, _EITHER, _whoami, NONE),
        Tool(
            mcp_tools.LIST_WORKFLOW_TYPES,
            Authenticator.anyone,
            _as_routed(workflow_handlers.list_workflow_types),
        ),
        Tool(mcp_tools.GET_WORKFLOW_SCHEMA, Authenticator.anyone, _get_schema),
        Tool(
            mcp_tools.START_WORKFLOW,
            Authenticator.organization,
            _as_routed(workflow_handlers.start_workflow),
            NONE,
            of_starting,
        ),
        Tool(mcp_tools.GET_WORKFLOW_STATUS, _EITHER, _get_status, READ),
        Tool(mcp_tools.WATCH_WORKFLOW, _EITHER, _watch, READ),
        Tool(mcp_tools.GET_WORKFLOW_HISTORY, _EITHER, _get_history, READ),
        Tool(
            mcp_tools.LIST_WORKFLOWS,
            Authenticator.organization,
            _as_routed(workflow_handlers.list_workflows),
            READ,
        ),
    )
}
"""Every tool of `lorebus_contracts.mcp_tools`, bound."""
