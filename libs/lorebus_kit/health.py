"""Health and metrics of a process over HTTP: `/health/live` follows progress, `/health/ready` dependencies."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lorebus_kit.metrics import HEALTHY, REGISTRY

OK: Final = 200
UNAVAILABLE: Final = 503
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Health:
    """What a process says of itself; each problem is a sentence that says what to do or what it waits for."""

    live_problems: tuple[str, ...]
    ready_problems: tuple[str, ...]
    facts: Mapping[str, object]


HealthSource = Callable[[], Health]


def health_routes(source: HealthSource) -> list[Route]:
    """GET /health, /health/live, /health/ready (200, or 503 with the problems) and /metrics."""

    async def live(_request: Request) -> Response:
        return _answer(source().live_problems, {})

    async def ready(_request: Request) -> Response:
        health = source()
        return _answer((*health.live_problems, *health.ready_problems), {})

    async def everything(_request: Request) -> Response:
        health = source()
        return _answer((*health.live_problems, *health.ready_problems), health.facts)

    async def metrics(_request: Request) -> Response:
        _tell(source())
        return Response(generate_latest(REGISTRY), headers={"content-type": CONTENT_TYPE_LATEST})

    return [
        Route("/health", everything),
        Route("/health/live", live),
        Route("/health/ready", ready),
        Route("/metrics", metrics),
    ]


def _tell(health: Health) -> None:
    HEALTHY.labels("live").set(not health.live_problems)
    HEALTHY.labels("ready").set(not (health.live_problems or health.ready_problems))


def _answer(problems: tuple[str, ...], facts: Mapping[str, object]) -> Response:
    body = {"status": "ok" if not problems else "unavailable", "problems": list(problems), **facts}
    return Response(
        json.dumps(body, default=str), OK if not problems else UNAVAILABLE, media_type="application/json"
    )


class _QuietServer(uvicorn.Server):
    """A server whose process handles its own signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HealthServer:
    """The health routes on a port of their own, in the loop of the process."""

    def __init__(self, source: HealthSource, *, host: str, port: int) -> None:
        app = Starlette(routes=health_routes(source))
        self._server = _QuietServer(
            uvicorn.Config(app, host=host, port=port, log_config=None, access_log=False, lifespan="off")
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Begin to answer; gives the port.

        Raises:
            OSError: the port is taken.
        """
        self._task = asyncio.create_task(self._server.serve(), name="health")
        while not self._server.started:
            if self._task.done():
                raise OSError(f"cannot listen on {self._server.config.host}:{self._server.config.port}")
            await asyncio.sleep(0.005)
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        _log.info("health", extra={"host": self._server.config.host, "port": port})
        return port

    async def stop(self) -> None:
        """Stop answering."""
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=2.0)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, SystemExit):
                await self._task
