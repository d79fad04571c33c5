"""The product's own services as processes of a test: started, watched, signalled, always ended."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx

from lorebus_ops.ports import free_port
from tests.support.outputs import OUTPUTS

READY_SECONDS: Final = 90.0
METRICS_SECONDS: Final = 2.0
TOKEN_SECRET: Final = "test-secret-of-more-than-thirty-two-bytes"


async def until(condition: Callable[[], object], *, seconds: float, what: str) -> None:
    """Wait until `condition` is true.

    Raises:
        TimeoutError: it was not in time; the text says what was waited for.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(0.02)


class Service:
    """One service process and what it said."""

    def __init__(
        self,
        name: str,
        environment: Mapping[str, str],
        *,
        port: int,
        log: Path,
        launcher: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.url = f"http://127.0.0.1:{port}"
        self._environment = dict(environment)
        self._log = log
        self._launcher = tuple(launcher)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process as it runs now."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process

    def start(self) -> None:
        """Start, or start again after an end."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._launcher, f"lorebus_{self.name}"],
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    async def ready(self) -> None:
        """Wait until the process says that it is ready.

        Raises:
            RuntimeError: it ended, or did not become ready in time; the text is its log.
        """
        deadline = time.monotonic() + READY_SECONDS
        async with httpx.AsyncClient() as client:
            while time.monotonic() < deadline:
                if self.process.poll() is not None:
                    if not self._lost_its_port():
                        break
                    self._move(free_port())
                    self.start()
                try:
                    if (await client.get(f"{self.url}/health/ready", timeout=2.0)).is_success:
                        return
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.05)
        raise RuntimeError(f"{self.name} is not ready:\n{self.log()}")

    def _move(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._environment |= {"LOREBUS_HEALTH_PORT": str(port), "LOREBUS_HTTP_PORT": str(port)}

    def _lost_its_port(self) -> bool:
        """Whether it ended because somebody else took the port between the choice and the start."""
        return f"('127.0.0.1', {self.url.rpartition(':')[2]}): address already in use" in self.log()

    def kill(self) -> None:
        """End it as a crash does: no time for anything."""
        self.process.kill()
        self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    async def stop(self, *, seconds: float = 30.0) -> int:
        """SIGTERM; gives the exit code.

        Raises:
            TimeoutError: it did not end in time.
        """
        self.process.terminate()
        await until(lambda: self.process.poll() is not None, seconds=seconds, what=f"{self.name} ends")
        return self.process.returncode

    def end(self) -> None:
        """Make sure that nothing of it is left."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()

    def log(self) -> str:
        """Everything it said."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""


@asynccontextmanager
async def services(
    *names: str,
    database_url: str,
    bootstrap_servers: str,
    topic_prefix: str,
    extra: Mapping[str, str] | None = None,
    wait: bool = True,
    launcher: Sequence[str] = (),
) -> AsyncIterator[tuple[Service, ...]]:
    """These services (a name twice is two processes of it), ready, and ended afterwards whatever happens.

    `launcher` is a module that is run in their place, with the service's name as its argument.
    """
    with tempfile.TemporaryDirectory(prefix="lorebus-services-") as folder:
        made = tuple(
            _service(
                name,
                Path(folder) / f"{index}-{name}.log",
                database_url=database_url,
                bootstrap_servers=bootstrap_servers,
                topic_prefix=topic_prefix,
                extra=extra or {},
                launcher=launcher,
            )
            for index, name in enumerate(names)
        )
        try:
            for service in made:
                service.start()
            if wait:
                await asyncio.gather(*(service.ready() for service in made))
            yield made
            await asyncio.gather(*(_search_metrics(service) for service in made))
        finally:
            for service in made:
                service.end()
                OUTPUTS.search(f"the log of {service.name}", service.log())


async def _search_metrics(service: Service) -> None:
    """Search the metrics of a service that still answers."""
    if service.process.poll() is not None:
        return
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            page = await client.get(f"{service.url}/metrics", timeout=METRICS_SECONDS)
        except httpx.TransportError:
            return
    OUTPUTS.search(f"the metrics of {service.name}", page.text)


def _service(
    name: str,
    log: Path,
    *,
    database_url: str,
    bootstrap_servers: str,
    topic_prefix: str,
    extra: Mapping[str, str],
    launcher: Sequence[str],
) -> Service:
    port = free_port()
    own = {
        "LOREBUS_DATABASE_URL": database_url,
        "LOREBUS_BOOTSTRAP_SERVERS": bootstrap_servers,
        "LOREBUS_TOPIC_PREFIX": topic_prefix,
        "LOREBUS_SESSION_TIMEOUT_SECONDS": "3",
        "LOREBUS_HEALTH_PORT": str(port),
        "LOREBUS_HTTP_PORT": str(port),
        "LOREBUS_TOKEN_SECRETS": TOKEN_SECRET,
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOREBUS_")}
    return Service(name, kept | own | dict(extra), port=port, log=log, launcher=launcher)
