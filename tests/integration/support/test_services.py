"""The stage itself: services that tests start."""

import socket

import pytest

from lorebus_ops.ports import LOOPBACK, free_port
from tests.support.services import services


async def test_a_service_whose_port_somebody_else_took_gets_another(
    database_url: str, bootstrap_servers: str, topics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, free_port()))
        taken.listen()
        port = taken.getsockname()[1]
        chosen = iter([port])
        monkeypatch.setattr("tests.support.services.free_port", lambda: next(chosen, None) or free_port())
        async with services(
            "prune", database_url=database_url, bootstrap_servers=bootstrap_servers, topic_prefix=topics
        ) as (service,):
            assert service.url != f"http://127.0.0.1:{port}"
            assert "address already in use" in service.log()
