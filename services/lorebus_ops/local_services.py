"""The services of the local stack as child processes: which there are, what they are told, when they are ready."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import httpx

from lorebus_ops.errors import StackError
from lorebus_ops.ports import LOOPBACK, free_port
from lorebus_ops.processes import Program

GATEWAY: Final = "gateway"
MODULES: Final = {
    GATEWAY: "lorebus_gateway",
    "save": "lorebus_save",
    "distill": "lorebus_distill",
    "labeller": "lorebus_recall_labeller",
    "prune": "lorebus_prune",
}
ALL_SERVICES: Final = tuple(MODULES)

LOCAL_ORGANIZATION: Final = UUID("00000000-0000-7000-8000-000000000001")
"""The organization that the local stack's key is for."""

SESSION_TIMEOUT_SECONDS: Final = 2
"""A consumer joins its group on the embedded broker in half of it (PERFORMANCE.md, what that taught, 8)."""

GATEWAY_PORT_VARIABLE: Final = "LOREBUS_HTTP_PORT"
HIGHEST_PORT: Final = 65_535
_PROBE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every service is told."""

    database_url: str
    bootstrap_servers: str
    token_secret: str
    extra_env: Mapping[str, str]


def service_program(name: str, port: int, surroundings: Surroundings) -> Program:
    """The service of this name, with its HTTP at this port."""
    http = "HTTP" if name == GATEWAY else "HEALTH"
    return Program(
        name=name,
        argv=(sys.executable, "-m", MODULES[name]),
        env={
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "LOREBUS_DATABASE_URL": surroundings.database_url,
            "LOREBUS_BOOTSTRAP_SERVERS": surroundings.bootstrap_servers,
            "LOREBUS_TOKEN_SECRETS": surroundings.token_secret,
            # The broker forgets everything at a restart, PostgreSQL does not: a 202 must not depend on the broker.
            "LOREBUS_ACCEPT": "store",
            "LOREBUS_TOPIC_PREFIX": "",
            "LOREBUS_SESSION_TIMEOUT_SECONDS": str(SESSION_TIMEOUT_SECONDS),
            **surroundings.extra_env,
            f"LOREBUS_{http}_HOST": LOOPBACK,
            f"LOREBUS_{http}_PORT": str(port),
        },
    )


def choose_port(name: str) -> int:
    """A free port; for the gateway the one that LOREBUS_HTTP_PORT asks for, if it does.

    Raises:
        StackError: what it asks for is no port.
    """
    wanted = os.environ.get(GATEWAY_PORT_VARIABLE) if name == GATEWAY else None
    if not wanted:
        return free_port()
    if not wanted.isdecimal() or not 0 < int(wanted) <= HIGHEST_PORT:
        raise StackError(f"{GATEWAY_PORT_VARIABLE}: must be a port between 1 and {HIGHEST_PORT}")
    return int(wanted)


def service_url(port: int) -> str:
    """Where a service's HTTP is."""
    return f"http://{LOOPBACK}:{port}"


async def is_ready(client: httpx.AsyncClient, url: str) -> bool:
    """True when the service says that it does its work."""
    try:
        answer = await client.get(f"{url}/health/ready", timeout=_PROBE_SECONDS)
    except httpx.TransportError:
        return False
    return answer.status_code == httpx.codes.OK
