"""The MCP server itself, by the official SDK: the gateway serves it over HTTP, the `lorebus` command over stdio.

The rule that must not break: both list the tools of `lorebus_contracts.mcp_tools` and answer with the bodies that HTTP
answers with, a problem document included. The SDK is large: import this module only where MCP is really spoken.
"""

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final, Protocol, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from lorebus_contracts.mcp_tools import INSTRUCTIONS, TOOLS, ToolDefinition

SERVER_NAME: Final = "lorebus"

Context: TypeAlias = ServerRequestContext[Any, Any]
"""What the SDK knows of a request: its session to tell progress by and, over HTTP, the request itself."""


class CallTool(Protocol):
    """Carries out a call of a tool that there is; the arguments are as they came."""

    async def __call__(self, context: Context, name: str, arguments: Mapping[str, object]) -> CallToolResult:
        """What the tool answers."""


def mcp_server(call_tool: CallTool) -> Server[Any]:
    """A server with every tool, whose calls `call_tool` carries out."""
    tools = {definition.name: _as_listed(definition) for definition in TOOLS.values()}

    async def on_list_tools(_context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=list(tools.values()))

    async def on_call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in tools:
            raise MCPError(code=INVALID_PARAMS, message="There is no such tool; see tools/list.")
        return await call_tool(context, params.name, params.arguments or {})

    def input_schema(name: str) -> Mapping[str, Any] | None:
        return tools[name].input_schema if name in tools else None

    return Server(
        SERVER_NAME,
        version=version("lorebus"),
        title="Lorebus",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=input_schema,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )


def tool_result(body: bytes, *, is_error: bool) -> CallToolResult:
    """An answer's JSON object, as text for models and structured for programs."""
    return CallToolResult(
        content=[TextContent(text=body.decode())], structured_content=json.loads(body), is_error=is_error
    )


def _as_listed(definition: ToolDefinition[Any]) -> Tool:
    return Tool(
        name=definition.name,
        title=definition.title,
        description=definition.description,
        input_schema=definition.input_schema(),
        output_schema=definition.output_schema(),
        annotations=ToolAnnotations(
            read_only_hint=definition.read_only,
            destructive_hint=definition.destructive,
            idempotent_hint=definition.idempotent,
            # All that a tool reaches is the organization's own memory.
            open_world_hint=False,
        ),
    )
