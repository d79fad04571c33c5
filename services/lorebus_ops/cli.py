"""The `lorebus` command: each subcommand reads its options and calls the module that does the work.

That module is imported by the subcommand: `up` starts PostgreSQL before the slow imports, and the others do without
the extra `local`.
"""

from pathlib import Path
from typing import Annotated, Final
from uuid import UUID

import typer

from lorebus_domain.key_scope import KeyScope
from lorebus_ops.commands import COMMANDS, GROUPS
from lorebus_ops.home import Home, default_home
from lorebus_ops.options import AsJson, DatabaseUrl, MigrationsDatabaseUrl, local

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    # A traceback with local values would show passwords.
    pretty_exceptions_enable=False,
    help="The memory of a fleet of AI agents.",
    epilog="Exit codes: 0 good; 1 something is wrong or was refused; 2 the command line cannot be read;"
    " 3 something cannot be reached (`up`: it runs already).",
)
keys_app = typer.Typer(no_args_is_help=True, help="The API keys of organizations.")
distill_app = typer.Typer(no_args_is_help=True, help="Distilling sessions.")
app.add_typer(keys_app, name="keys")
app.add_typer(distill_app, name="distill")
for name, group in GROUPS.items():
    app.add_typer(group, name=name)
for name, (command, epilog) in COMMANDS.items():
    app.command(name, epilog=epilog)(command)

# An empty line keeps two lines of help apart.
MCP_EXAMPLE: Final = """Example, in the configuration of an MCP host:

{"mcpServers": {"lorebus": {"command": "lorebus", "args": ["mcp"], "env":

{"LOREBUS_URL": "https://lorebus.example", "LOREBUS_API_KEY": "lrb_..."}}}}"""
_SOMEBODY: Final = "463f32b1-1fa6-4027-b185-c5fbc6853560"
"""An organization of the examples."""


def main() -> None:
    """Run the command."""
    app()


@app.command(
    epilog="""Examples:

lorebus up

LOREBUS_HOME=/var/tmp/try lorebus up --json 2>up.log | jq -r 'select(.event == "ready") | .gateway_url'"""
)
def up(
    *,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="A JSON object a line: `ready` with all addresses, and `ended`; logs go to stderr."
        ),
    ] = False,
) -> None:
    """Keep the whole system up on this machine: PostgreSQL, broker, gateway and four consumers.

    Its data is kept in .lorebus/ of the current folder, or where LOREBUS_HOME says. Exit code 3: it runs already.
    """
    from lorebus_ops.up import up as keep_up  # noqa: PLC0415 - Needs the extra `local`.

    raise typer.Exit(keep_up(default_home(), as_json=as_json))


@app.command(
    epilog="""Examples:

lorebus demo

lorebus demo --json | jq '.next_session.loads.pack.memory'"""
)
def demo(
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object with all that is shown: sessions, totals, loads.")
    ] = False,
) -> None:
    """Show the main job on real sessions; starts the system if none runs."""
    from lorebus_ops.demo import demo as show  # noqa: PLC0415 - Needs the extra `local`.

    raise typer.Exit(show(default_home(), as_json=as_json))


@app.command(epilog=MCP_EXAMPLE)
def mcp() -> None:
    """Serve MCP over standard input and output.

    For agents and hosts that start their servers as programs; a gateway serves the same tools over HTTP at /mcp.

    A gateway carries out every call: the one that LOREBUS_URL names, or else the running local stack's.

    LOREBUS_API_KEY acts for an organization, LOREBUS_TOKEN for one agent session.

    Give one of the two; with the local stack both may be left out, and its own key is used.

    There is no --json: standard output carries the protocol, which is JSON already, and errors are lines on stderr.
    """
    from lorebus_ops.mcp_stdio import serve  # noqa: PLC0415 - Slow to import.

    raise typer.Exit(serve(Home(default_home()).running()))


@app.command(
    epilog="Example: lorebus migrate --migrations-database-url postgresql://owner:secret@db.internal/lorebus"
)
def migrate(
    database_url: DatabaseUrl = None,
    migrations_database_url: MigrationsDatabaseUrl = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Bring the database to the newest tables; does nothing when it is there already.

    Given both addresses, it also makes the login of the first, which services connect with and which owns nothing.
    """
    from lorebus_ops.administration import migrate as bring_up  # noqa: PLC0415 - Slow to import.

    if database_url is None and migrations_database_url is None:
        info = local()
        database_url, migrations_database_url = info.database_url, info.migrations_database_url
    bring_up(migrations_database_url or str(database_url), database_url, as_json=as_json)


@keys_app.command(
    epilog=f"""Examples:

lorebus keys create --organization {_SOMEBODY} --name ci

lorebus keys create --organization {_SOMEBODY} --scope read --json | jq -r .key"""
)
def create(
    organization: Annotated[UUID, typer.Option(help="Whose key; an unknown organization becomes known.")],
    name: Annotated[str, typer.Option(help="What people recognize the key by.")] = "cli",
    scope: Annotated[
        list[KeyScope] | None, typer.Option(help="What the key is for; once for each. Left out: for all.")
    ] = None,
    database_url: DatabaseUrl = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Make an API key and print it; it is shown this once and kept as a hash only."""
    from lorebus_ops.api_keys import create_api_key  # noqa: PLC0415 - Slow to import.

    url = database_url or local().database_url
    create_api_key(url, organization, name=name, scopes=scope or None, as_json=as_json)


@keys_app.command("list", epilog=f"Example: lorebus keys list --organization {_SOMEBODY}")
def list_(
    organization: Annotated[UUID, typer.Option(help="Whose keys.")],
    database_url: DatabaseUrl = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List an organization's API keys, oldest first, revoked ones among them."""
    from lorebus_ops.api_keys import list_api_keys  # noqa: PLC0415 - Slow to import.

    list_api_keys(database_url or local().database_url, organization, as_json=as_json)


@keys_app.command(
    epilog=f"Example: lorebus keys revoke 0190a0c5-2f4e-7c1b-9d0e-5a6b7c8d9e0f --organization {_SOMEBODY}"
)
def revoke(
    key_id: Annotated[UUID, typer.Argument(help="The key, as `list` shows it.")],
    organization: Annotated[UUID, typer.Option(help="Whose key.")],
    database_url: DatabaseUrl = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Revoke an API key, the last one as well; gateways hear of it, or forget it within LOREBUS_KEY_CACHE_SECONDS."""
    from lorebus_ops.api_keys import revoke_api_key  # noqa: PLC0415 - Slow to import.

    url = database_url or local().database_url
    revoke_api_key(url, organization, key_id, as_json=as_json)


@distill_app.command(
    "try",
    epilog="""Examples:

lorebus distill try --session session.json --profile small

lorebus distill try --session sessions.jsonl --line 7 --json | jq -r '.lessons[].text'""",
)
def try_session(
    session: Annotated[Path, typer.Option(help="A session.ended event as JSON, or a file with one a line.")],
    line: Annotated[int, typer.Option(min=1, help="Which line of such a file.")] = 1,
    profile: Annotated[
        str | None, typer.Option(help="A model of LOREBUS_MODELS; left out, the built-in rules.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show the prompt, the answer and the lessons of a session; saves nothing and needs no stack."""
    from lorebus_ops.distill_try import try_distill  # noqa: PLC0415 - Slow to import.

    raise typer.Exit(try_distill(session, line=line, profile=profile, as_json=as_json))
