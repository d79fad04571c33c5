import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from tests.support.processes import eventually, family, is_gone

UP_SECONDS = 120.0


async def test_up_answers_with_all_services_and_ends_without_a_trace_on_sigterm(tmp_path: Path) -> None:
    words = (sys.executable, "-m", "lorebus_ops", "up", "--json")
    environment = {**os.environ, "LOREBUS_HOME": str(tmp_path)}
    with (tmp_path / "log.txt").open("wb") as log:
        command = await asyncio.create_subprocess_exec(
            *words, env=environment, stdout=asyncio.subprocess.PIPE, stderr=log
        )
    try:
        where = tmp_path / "local.json"
        await eventually(lambda: where.exists() or command.returncode is not None, seconds=UP_SECONDS)
        info = json.loads(where.read_text())
        processes = family(command.pid)
        listening = {
            connection.laddr.ip
            for process in processes
            for connection in psutil.Process(process).net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }
        async with httpx.AsyncClient() as client:
            ready = {
                name: (await client.get(f"{url}/health/ready")).status_code
                for name, url in info["services"].items()
            }
            organization = await client.get(
                f"{info['gateway_url']}/api/app/organization",
                headers={"Authorization": f"Bearer {info['api_key']}"},
            )
        second = await asyncio.create_subprocess_exec(
            *words, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        refused, _ = await second.communicate()
    finally:
        command.send_signal(signal.SIGTERM)
        output, _ = await command.communicate()
    said = (tmp_path / "log.txt").read_text()

    assert ready == {"gateway": 200, "save": 200, "distill": 200, "labeller": 200, "prune": 200}
    assert organization.status_code == 200
    assert listening == {"127.0.0.1"}
    assert command.returncode == 0, said
    _check_told(output, info, tmp_path)
    assert "database | " in said
    assert second.returncode == 3
    (told,) = map(json.loads, refused.splitlines())
    assert (told["event"], told["exit_code"]) == ("ended", 3)
    assert told["error"].endswith(f"its gateway is {info['gateway_url']}")
    assert [process for process in processes if not is_gone(process)] == []
    assert not where.exists()


def _check_told(output: bytes, info: dict[str, Any], home: Path) -> None:
    """Standard output has two lines, and no secret."""
    ready, ended = map(json.loads, output.splitlines())
    database = urlsplit(info["database_url"])
    assert ready.pop("seconds") > 0
    assert ready == {
        "event": "ready",
        "gateway_url": info["gateway_url"],
        "organization_uuid": "00000000-0000-7000-8000-000000000001",
        "bootstrap_servers": info["bootstrap_servers"],
        "database": f"127.0.0.1:{database.port}",
        "services": info["services"],
        "pid": info["pid"],
        "key_file": str(home / "api.key"),
        "info_file": str(home / "local.json"),
        "log_file": str(home / "log" / "lorebus.log"),
    }
    assert (home / "api.key").read_text().strip() == info["api_key"]
    assert ended == {"event": "ended", "exit_code": 0, "error": None}
