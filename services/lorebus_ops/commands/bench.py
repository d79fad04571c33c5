"""`lorebus bench`: how fast a running Lorebus is, as its callers see it."""

from typing import Annotated, Final

import typer

from lorebus_ops.options import AsJson
from lorebus_ops.target import URL_VARIABLE

EXAMPLES: Final = """Examples:

lorebus bench

lorebus bench --url https://lorebus.example --callers 4 --seconds 30 --yes

lorebus bench --json | jq '.loads.pack.p99_ms'"""


def bench(
    url: Annotated[
        str | None,
        typer.Option(envvar=URL_VARIABLE, help="The gateway; left out, that of the running local stack."),
    ] = None,
    callers: Annotated[int, typer.Option(min=1, max=64, help="Sessions that ask at the same time.")] = 8,
    seconds: Annotated[float, typer.Option(min=1, max=3_600, help="For how long.")] = 10,
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Also where the gateway is not on this machine: it may be in use.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Save and load for a while, and tell rates and times: save accepted, save to visible, load by strategy.

    With the key LOREBUS_API_KEY, which has to be for all scopes, or the local stack's own. It works in an agent config
    of its own and removes what it saved there; records of its loads stay for as long as those of others do.

    One process asks, so it may be what is slow: give more callers until the rates grow no more.

    The full comparison, with other sizes of memory and beside other systems, is `make bench` of the source tree.

    Exit code 1: a request failed, or a save was not visible within 30 s.
    """
    from lorebus_ops.bench import bench as measure  # noqa: PLC0415 - Slow to import.

    measure(url, callers=callers, seconds=seconds, sure=yes, as_json=as_json)
