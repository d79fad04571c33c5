import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import httpx
import psutil

from tests.support.processes import eventually, family, is_gone

UP_SECONDS = 120.0


async def test_up_answers_with_all_services_and_ends_without_a_trace_on_sigterm(tmp_path: Path) -> None:
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lorebus_ops", "up"),
        env={**os.environ, "LOREBUS_HOME": str(tmp_path)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
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
    finally:
        command.send_signal(signal.SIGTERM)
        _, said = await command.communicate()

    assert ready == {"gateway": 200, "save": 200, "distill": 200, "labeller": 200, "prune": 200}
    assert organization.status_code == 200
    assert listening == {"127.0.0.1"}
    assert command.returncode == 0, said.decode()
    assert [process for process in processes if not is_gone(process)] == []
    assert not where.exists()
