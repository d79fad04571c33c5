"""Is a port that a service is told to listen on free, or Lorebus's own already?"""

import asyncio
import os
import socket
from typing import Final

import httpx2

from lorebus_ops.checkup.finding import Finding, good, wrong

PORTS: Final = (("LOREBUS_HTTP_PORT", "LOREBUS_HTTP_HOST"), ("LOREBUS_HEALTH_PORT", "LOREBUS_HEALTH_HOST"))
_HERE: Final = "127.0.0.1"
_HIGHEST: Final = 65_535
_ANSWER_SECONDS: Final = 2.0


async def check_ports() -> tuple[Finding, ...]:
    """What is wrong with the ports that the environment names; 0 lets the kernel choose, so nothing is."""
    found = []
    for variable, host_variable in PORTS:
        written = os.environ.get(variable, "")
        # What is no port is a bad setting, and told there.
        if written.isdecimal() and 0 < int(written) <= _HIGHEST:
            found.append(await _port(variable, os.environ.get(host_variable) or _HERE, int(written)))
    return tuple(found) or (good("ports", "none is asked for"),)


async def _port(variable: str, host: str, port: int) -> Finding:
    if await asyncio.to_thread(_is_free, host, port):
        return good("ports", f"{host}:{port} ({variable}) is free")
    if await _is_ours(host, port):
        return good("ports", f"{host}:{port} ({variable}) is a Lorebus service's already")
    return wrong(
        *("ports", "taken", f"{host}:{port} ({variable}) is another program's"),
        f"end that program (ss -ltnp 'sport = :{port}' names it), or give {variable} another port",
    )


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


async def _is_ours(host: str, port: int) -> bool:
    """Whether who listens there answers as our services do."""
    where = _HERE if host in {"", "0.0.0.0"} else host  # noqa: S104 - Compared, not listened on.
    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=_ANSWER_SECONDS) as client:
            told = (await client.get(f"http://{where}:{port}/health/live")).json()
    except (httpx2.HTTPError, ValueError):
        return False
    return isinstance(told, dict) and "problems" in told
