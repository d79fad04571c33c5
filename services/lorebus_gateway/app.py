"""The gateway put together: what it works with, the routes, and what runs beside them.

The rule that must not break: a stop answers what is in hand, has answered recalls accepted, and only then closes.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from lorebus_contracts.schemas import as_text
from lorebus_gateway.administration import Administration
from lorebus_gateway.answers import JSON, Answer
from lorebus_gateway.api_keys import ApiKeys
from lorebus_gateway.authentication import Authenticator, HeldKeys
from lorebus_gateway.connections import CuttableProtocol
from lorebus_gateway.docs_page import docs_routes
from lorebus_gateway.endpoints import PathEndpoint
from lorebus_gateway.erasing import Erasing
from lorebus_gateway.errors import NotFoundError
from lorebus_gateway.exporting import Exporting
from lorebus_gateway.feed import Feed, FeedLimits
from lorebus_gateway.idempotency import Idempotency
from lorebus_gateway.importing import Importing
from lorebus_gateway.key_uses import KeyUses
from lorebus_gateway.lessons import Lessons
from lorebus_gateway.mcp_endpoint import McpEndpoint
from lorebus_gateway.openapi import openapi_document
from lorebus_gateway.problems import method_not_allowed, problem_answer
from lorebus_gateway.rate_limit import RateLimit
from lorebus_gateway.readiness import Readiness
from lorebus_gateway.recall_recorder import RecallRecorder
from lorebus_gateway.recalling import KnownSettings, Recalling
from lorebus_gateway.remembered import Changes, Remembered
from lorebus_gateway.routes import ROUTES
from lorebus_gateway.run_changes import RunChanges
from lorebus_gateway.run_noter import RunNoter
from lorebus_gateway.run_status import RunStatus
from lorebus_gateway.runner_paths import Application
from lorebus_gateway.runtime_sessions import RuntimeSessions
from lorebus_gateway.saving import Saving
from lorebus_gateway.services import Services
from lorebus_gateway.session_ends import SessionEnds
from lorebus_gateway.settings import GatewaySettings
from lorebus_gateway.starting import Starting
from lorebus_gateway.waiting import RunWaiting
from lorebus_kit.acceptance import AcceptMode, Acceptor
from lorebus_kit.bus import BusProducer
from lorebus_kit.delivery import keep_running
from lorebus_kit.health import health_routes
from lorebus_kit.pools import watch_pool
from lorebus_kit.providers.directory import Providers
from lorebus_kit.providers.usage import StoredUsage
from lorebus_kit.relay import Relay
from lorebus_kit.run_ids import RunIds
from lorebus_kit.stopping import on_stop_signal
from lorebus_kit.sweeper import Sweeper
from lorebus_kit.tail import Tail
from lorebus_kit.tokens import SessionTokens
from lorebus_store.database import Database

KEEP_ALIVE_SECONDS: Final = 75
"""Longer than clients and proxies keep an idle connection, so that it is they who close it."""
BUS_START_SECONDS: Final = 2.0
_METHOD_NOT_ALLOWED: Final = 405
_log: Final = logging.getLogger(__name__)


class Gateway:
    """One gateway: its parts are made here, started and stopped by the application's lifespan.

    `stopping` is set by the server when a stop begins: whoever is answered for long is then answered to the end.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        self.stopping = asyncio.Event()
        self._settings = settings
        secrets = settings.all_token_secrets()
        self._database = Database(
            settings.database_url.get_secret_value(),
            pool_size=settings.database_pool_size,
            pooler=settings.database_pooler,
            application_name="lorebus-gateway",
        )
        watch_pool(self._database)
        self._bus = BusProducer(settings.bootstrap_servers, topic_prefix=settings.topic_prefix)
        self._relay = Relay(self._database, self._bus)
        self._acceptor = Acceptor(
            self._database,
            self._bus,
            mode=settings.accept,
            wake_relay=self._relay.wake,
            publish_seconds=settings.publish_timeout_seconds,
        )
        self._recorder = RecallRecorder(self._acceptor, queue_size=settings.recall_queue)
        self._readiness = Readiness(self._database, self._acceptor, mode=settings.accept)
        self._tokens = SessionTokens(secrets, lifetime=settings.token_lifetime)
        self._key_uses = KeyUses(self._database)
        self._run_ids = RunIds(secrets)
        self._noter = RunNoter(self._acceptor)
        self._tail = Tail(settings.bootstrap_servers, topic_prefix=settings.topic_prefix)
        self._providers = Providers(settings.models, StoredUsage(self._database, settings))
        self._services = self._made_services()
        self._mcp = McpEndpoint(self._services, http_host=settings.http_host)

    def app(self) -> Starlette:
        """The ASGI application."""
        paths = dict.fromkeys(route.path for route in ROUTES)
        endpoints = {
            path: PathEndpoint([route for route in ROUTES if route.path == path], self._services)
            for path in paths
        }
        app = Application(
            endpoints,
            on_error=_internal_error,
            routes=[
                *(StarletteRoute(path, endpoint) for path, endpoint in endpoints.items()),
                StarletteRoute("/mcp", self._mcp),
                *health_routes(self._readiness.health),
                StarletteRoute("/openapi.json", _openapi),
                *docs_routes(),
            ],
            exception_handlers={HTTPException: _unknown_route, Exception: _internal_error},
            lifespan=self._lifespan,
        )
        app.router.redirect_slashes = False
        return app

    def _made_services(self) -> Services:
        saving = Saving(self._database, self._acceptor, self._run_ids, self._noter)
        run_status = RunStatus(self._database, self._run_ids)
        remember_seconds = self._settings.key_cache_seconds
        held_keys: HeldKeys = Remembered(seconds=remember_seconds)
        recall_settings: KnownSettings = Remembered(seconds=remember_seconds)
        self._changes = Changes(self._database, (held_keys, recall_settings))
        recalling = Recalling(self._database, self._recorder, self._run_ids, recall_settings)
        ends = SessionEnds(
            self._database,
            grace_seconds=self._settings.token_grace_seconds,
            remember_seconds=remember_seconds,
        )
        return Services(
            authenticator=Authenticator(self._tokens, self._database, ends, self._key_uses, held_keys),
            saving=saving,
            recalling=recalling,
            starting=Starting(self._database, saving=saving, recalling=recalling, run_ids=self._run_ids),
            run_status=run_status,
            sessions=RuntimeSessions(self._database, self._acceptor, self._tokens, ends),
            administration=Administration(
                self._database, wake_relay=self._relay.wake, forget=self._changes.forget
            ),
            idempotency=Idempotency(self._database),
            feed=Feed(self._tail, self._database, self.stopping, FeedLimits.of(self._settings)),
            erasing=Erasing(self._database, wake_relay=self._relay.wake),
            exporting=Exporting(self._database),
            importing=Importing(self._database, wake_relay=self._relay.wake),
            rate_limit=RateLimit(self._database, per_window=self._settings.rate_limit_per_minute),
            api_keys=ApiKeys(self._database, forget=self._changes.forget),
            lessons=Lessons(self._database, self._providers, wake_relay=self._relay.wake),
            body_seconds=self._settings.body_timeout_seconds,
            waiting=RunWaiting(RunChanges(self._database, self.stopping), run_status),
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        stop = asyncio.Event()
        on_bus = self._settings.accept is AcceptMode.BUS
        await self._bus.start(wait_seconds=BUS_START_SECONDS if on_bus else 0.0)
        sweeper = Sweeper(self._database, self._relay)
        work = (
            self._relay.run,
            sweeper.run,
            self._readiness.run,
            self._mcp.run,
            self._noter.run,
            self._tail.run,
            self._key_uses.run,
            self._changes.run,
        )
        beside = [asyncio.create_task(keep_running(one, stop)) for one in work]
        recording = asyncio.create_task(keep_running(self._recorder.run, stop))
        try:
            yield
            await self._recorder.drain(self._settings.stop_seconds)
        finally:
            stop.set()
            recording.cancel()
            await asyncio.wait(beside, timeout=self._settings.stop_seconds)
            for task in beside:
                task.cancel()
            await asyncio.gather(recording, *beside, return_exceptions=True)
            await self._bus.stop()
            await self._providers.close()
            await self._database.dispose()


class StoppingServer(uvicorn.Server):
    """A server that says when a stop begins, before it waits for the answers in hand."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop."""
        self._stopping.set()
        await super().shutdown(sockets)


class _Server(StoppingServer):
    """A server that ends with exit code 0 on SIGTERM; uvicorn's own would raise the signal once more."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        on_stop_signal(lambda number: self.handle_exit(number, None))
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.servers:
            host, port, *_ = self.servers[0].sockets[0].getsockname()
            _log.info("listening", extra={"host": host, "port": port})


async def serve(settings: GatewaySettings) -> None:
    """Answer requests until SIGTERM or SIGINT."""
    gateway = Gateway(settings)
    await _Server(server_config(settings, gateway.app()), gateway.stopping).serve()


def server_config(settings: GatewaySettings, app: Starlette) -> uvicorn.Config:
    """How uvicorn serves the application."""
    return uvicorn.Config(
        app,
        host=settings.http_host,
        port=settings.http_port,
        http=CuttableProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(settings.stop_seconds),
    )


def _response(given: Answer) -> Response:
    return Response(given.body, given.status, media_type=given.media_type, headers=dict(given.headers))


def _openapi(_request: Request) -> Response:
    return Response(as_text(openapi_document()), media_type=JSON)


async def _unknown_route(_request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and error.status_code == _METHOD_NOT_ALLOWED:
        return _response(method_not_allowed((error.headers or {}).get("Allow", "")))
    return _response(problem_answer(NotFoundError()))


async def _internal_error(_request: Request, error: Exception) -> Response:
    """Answer 500; the server logs the error by its type and place, without its values."""
    return _response(problem_answer(error))
