"""`lorebus memory`: an organization's memory from a shell, through its gateway."""

from pathlib import Path
from typing import Annotated, Final, Literal
from uuid import UUID

import typer

from lorebus_ops.options import AsJson

app: Final = typer.Typer(
    no_args_is_help=True,
    help="An organization's memory, through the gateway that LOREBUS_URL names (with LOREBUS_API_KEY), or else the"
    " running local stack's.",
)

AgentConfig = Annotated[UUID, typer.Option(help="Of this agent config.")]


@app.command(
    "list",
    epilog="""Examples:

lorebus memory list --agent-config 5a1c5a52-6f2c-4f0c-9d35-0c6f6f1f7a10 --principal ann

lorebus memory list --agent-config 5a1c5a52-6f2c-4f0c-9d35-0c6f6f1f7a10 --every --json | jq -r '.entries[].text'""",
)
def list_entries(
    agent_config: AgentConfig,
    *,
    principal: Annotated[str | None, typer.Option(help="Only this principal's.")] = None,
    text: Annotated[str | None, typer.Option(help="Only with each of these words in it.")] = None,
    min_importance: Annotated[float | None, typer.Option(min=0, max=1, help="Only of at least this.")] = None,
    state: Annotated[
        Literal["active", "quarantined"], typer.Option(help="What is recalled, or what is held back.")
    ] = "active",
    page: Annotated[int, typer.Option(min=1, help="Which page.")] = 1,
    per_page: Annotated[int, typer.Option(min=1, max=100, help="How many entries a page has.")] = 20,
    shared: Annotated[
        bool | None, typer.Option("--shared/--of-principals", help="Only the shared pool, or only the rest.")
    ] = None,
    every: Annotated[bool, typer.Option("--every", help="All pages from there on.")] = False,
    as_json: AsJson = False,
) -> None:
    """List entries with their texts, highest importance first."""
    from lorebus_ops.memory_care import list_found  # noqa: PLC0415 - Slow to import.

    conditions = {
        "agent_config_uuid": agent_config,
        "principal_ref": principal,
        "q": text,
        "min_importance": min_importance,
        "state": state,
        "shared": None if shared is None else str(shared).lower(),
        "per_page": per_page,
    }
    list_found(conditions, page=page, every=every, as_json=as_json)


@app.command(
    epilog="""Examples:

lorebus memory export --agent-config 5a1c5a52-6f2c-4f0c-9d35-0c6f6f1f7a10 --output memory.jsonl

lorebus memory export --agent-config 5a1c5a52-6f2c-4f0c-9d35-0c6f6f1f7a10 | gzip > memory.jsonl.gz"""
)
def export(
    agent_config: AgentConfig,
    output: Annotated[
        Path | None, typer.Option(help="The file to write; left out, standard output.", dir_okay=False)
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Write an agent config's entries as JSON Lines, with all their counts (docs/architecture/export.md).

    A file is there only once it is whole. Without --output, the file itself is the answer, with --json or not.

    Exit code 1: the gateway broke off.
    """
    from lorebus_ops.memory_moves import export_entries  # noqa: PLC0415 - Slow to import.

    export_entries(agent_config, output, as_json=as_json)


@app.command(
    "import",
    epilog="""Examples:

lorebus memory import memory.jsonl --agent-config 5a1c5a52-6f2c-4f0c-9d35-0c6f6f1f7a10

gunzip < memory.jsonl.gz | lorebus memory import - --agent-config 5a1c5a52-6f2c-4f0c-9d35-0c6f6f1f7a10""",
)
def import_file(
    file: Annotated[Path, typer.Argument(help="An exported file; - is standard input.", allow_dash=True)],
    agent_config: AgentConfig,
    *,
    as_json: AsJson = False,
) -> None:
    """Add an exported file's entries to an agent config, all or none; a second time nothing is added.

    Exit code 1: the file is at fault, and the lines say where; nothing was added.
    """
    from lorebus_ops.memory_moves import import_entries  # noqa: PLC0415 - Slow to import.

    import_entries(agent_config, file, as_json=as_json)


@app.command(
    epilog="""Examples:

lorebus memory erase --principal ann

lorebus memory erase --session 7d0b0a5e-3f43-4b66-9a0c-2f5f5e4d3c21 --yes --json"""
)
def erase(
    principal: Annotated[str | None, typer.Option(help="All that is kept of this principal.")] = None,
    agent_config: Annotated[
        UUID | None, typer.Option(help="With --principal: only in this agent config.")
    ] = None,
    session: Annotated[UUID | None, typer.Option(help="All that is kept of this session.")] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase a principal or a session: all that is kept, and whatever comes late. It cannot be taken back.

    Asks first, unless --yes is given. The answer is the receipt (docs/architecture/erase.md).
    """
    if (principal is None) == (session is None) or (agent_config is not None and session is not None):
        raise typer.BadParameter("give --principal (with --agent-config or not) or --session, one of the two")
    if not yes:
        typer.confirm("This cannot be taken back. Erase?", abort=True, err=True)
    from lorebus_ops.memory_care import erase_subject  # noqa: PLC0415 - Slow to import.

    erase_subject(principal=principal, agent_config=agent_config, session=session, as_json=as_json)
