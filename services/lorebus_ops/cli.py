"""The `lorebus` command: each subcommand reads its options and calls the module that does the work.

That module is imported by the subcommand: `up` starts PostgreSQL before the slow imports, and the others do without
the extra `local`.
"""

import sys
from pathlib import Path
from typing import Annotated, Final
from uuid import UUID

import typer

from lorebus_domain.key_scope import KeyScope
from lorebus_ops.errors import EXIT_FAILED
from lorebus_ops.home import Home, LocalInfo, default_home

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    # A traceback with local values would show passwords.
    pretty_exceptions_enable=False,
    help="The memory of a fleet of AI agents.",
)
topics_app = typer.Typer(no_args_is_help=True, help="The topics of the broker.")
keys_app = typer.Typer(no_args_is_help=True, help="The API keys of organizations.")
distill_app = typer.Typer(no_args_is_help=True, help="Distilling sessions.")
app.add_typer(topics_app, name="topics")
app.add_typer(keys_app, name="keys")
app.add_typer(distill_app, name="distill")

# An empty line keeps two lines of help apart.
MCP_EXAMPLE: Final = """Example, in the configuration of an MCP host:

{"mcpServers": {"lorebus": {"command": "lorebus", "args": ["mcp"], "env":

{"LOREBUS_URL": "https://lorebus.example", "LOREBUS_API_KEY": "lrb_..."}}}}"""
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        envvar="LOREBUS_DATABASE_URL", help="PostgreSQL; left out, that of the running local stack."
    ),
]
BootstrapServers = Annotated[
    str | None,
    typer.Option(
        envvar="LOREBUS_BOOTSTRAP_SERVERS", help="Kafka; left out, that of the running local stack."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def main() -> None:
    """Run the command."""
    app()


@app.command()
def up() -> None:
    """Keep the whole system up on this machine: PostgreSQL, broker, gateway and four consumers.

    Its data is kept in .lorebus/ of the current folder, or where LOREBUS_HOME says. Exit code 3: it runs already.
    """
    from lorebus_ops.up import up as keep_up  # noqa: PLC0415 - Needs the extra `local`.

    raise typer.Exit(keep_up(default_home()))


@app.command()
def demo() -> None:
    """Show the main job on real sessions; starts the system if none runs."""
    from lorebus_ops.demo import demo as show  # noqa: PLC0415 - Needs the extra `local`.

    raise typer.Exit(show(default_home()))


@app.command(epilog=MCP_EXAMPLE)
def mcp() -> None:
    """Serve MCP over standard input and output.

    For agents and hosts that start their servers as programs; a gateway serves the same tools over HTTP at /mcp.

    A gateway carries out every call: the one that LOREBUS_URL names, or else the running local stack's.

    LOREBUS_API_KEY acts for an organization, LOREBUS_TOKEN for one agent session.

    Give one of the two; with the local stack both may be left out, and its own key is used.
    """
    from lorebus_ops.mcp_stdio import serve  # noqa: PLC0415 - Slow to import.

    raise typer.Exit(serve(Home(default_home()).running()))


@app.command()
def migrate(database_url: DatabaseUrl = None) -> None:
    """Bring the database to the newest tables; does nothing when it is there already."""
    from lorebus_ops.administration import migrate as bring_up  # noqa: PLC0415 - Slow to import.

    raise typer.Exit(bring_up(database_url or _local().database_url))


@topics_app.command()
def apply(
    bootstrap_servers: BootstrapServers = None,
    partitions: Annotated[int, typer.Option(min=1, help="Of each new topic.")] = 6,
    replication_factor: Annotated[int, typer.Option(min=1, help="Of each new topic; 3 in production.")] = 1,
    prefix: Annotated[str, typer.Option(envvar="LOREBUS_TOPIC_PREFIX", help="Put before every topic.")] = "",
) -> None:
    """Make the topics that are not there yet, dead letters included."""
    from lorebus_ops.administration import make_topics  # noqa: PLC0415 - Slow to import.

    servers = bootstrap_servers or _local().bootstrap_servers
    raise typer.Exit(
        make_topics(servers, partitions=partitions, replication_factor=replication_factor, prefix=prefix)
    )


@keys_app.command()
def create(
    organization: Annotated[UUID, typer.Option(help="Whose key; an unknown organization becomes known.")],
    name: Annotated[str, typer.Option(help="What people recognize the key by.")] = "cli",
    scope: Annotated[
        list[KeyScope] | None, typer.Option(help="What the key is for; once for each. Left out: for all.")
    ] = None,
    database_url: DatabaseUrl = None,
    *,
    json: AsJson = False,
) -> None:
    """Make an API key and print it; it is shown this once and kept as a hash only."""
    from lorebus_ops.api_keys import create_api_key  # noqa: PLC0415 - Slow to import.

    url = database_url or _local().database_url
    raise typer.Exit(create_api_key(url, organization, name=name, scopes=scope or None, as_json=json))


@keys_app.command("list")
def list_(
    organization: Annotated[UUID, typer.Option(help="Whose keys.")],
    database_url: DatabaseUrl = None,
    *,
    json: AsJson = False,
) -> None:
    """List an organization's API keys, oldest first, revoked ones among them."""
    from lorebus_ops.api_keys import list_api_keys  # noqa: PLC0415 - Slow to import.

    raise typer.Exit(list_api_keys(database_url or _local().database_url, organization, as_json=json))


@keys_app.command()
def revoke(
    key_id: Annotated[UUID, typer.Argument(help="The key, as `list` shows it.")],
    organization: Annotated[UUID, typer.Option(help="Whose key.")],
    database_url: DatabaseUrl = None,
    *,
    json: AsJson = False,
) -> None:
    """Revoke an API key, the last one as well; gateways forget it within LOREBUS_KEY_CACHE_SECONDS."""
    from lorebus_ops.api_keys import revoke_api_key  # noqa: PLC0415 - Slow to import.

    url = database_url or _local().database_url
    raise typer.Exit(revoke_api_key(url, organization, key_id, as_json=json))


@distill_app.command("try")
def try_session(
    session: Annotated[Path, typer.Option(help="A session.ended event as JSON, or a file with one a line.")],
    line: Annotated[int, typer.Option(min=1, help="Which line of such a file.")] = 1,
    profile: Annotated[
        str | None, typer.Option(help="A model of LOREBUS_MODELS; left out, the built-in rules.")
    ] = None,
) -> None:
    """Show the prompt, the answer and the lessons of a session; saves nothing and needs no stack."""
    from lorebus_ops.distill_try import try_distill  # noqa: PLC0415 - Slow to import.

    raise typer.Exit(try_distill(session, line=line, profile=profile))


def _local() -> LocalInfo:
    info = Home(default_home()).running()
    if info is None:
        sys.stderr.write(
            "lorebus: no local stack is up here; start it with `lorebus up`, or give the address\n"
        )
        raise typer.Exit(EXIT_FAILED)
    return info
