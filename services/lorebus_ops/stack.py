"""The whole system on one machine: PostgreSQL, broker, gateway and consumers as processes that we keep up.

The rule that must not break: `LocalStack` is entered only when every part of it is ready, and left only when no
process of it is. PostgreSQL keeps its data in the folder; the broker begins empty each time, also after a crash.
"""

import asyncio
import importlib
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol, Self, TextIO, TypeVar

import httpx

from lorebus_kit.backoff import Backoff
from lorebus_ops.embedded_broker import bootstrap_servers, broker_program
from lorebus_ops.embedded_postgres import EmbeddedPostgres
from lorebus_ops.errors import StackError
from lorebus_ops.home import Home, LocalInfo
from lorebus_ops.line_log import LineLog
from lorebus_ops.local_services import (
    ALL_SERVICES,
    GATEWAY,
    LOCAL_ORGANIZATION,
    Surroundings,
    choose_port,
    is_ready,
    service_program,
    service_url,
)
from lorebus_ops.ports import accepts_connections, free_port
from lorebus_ops.private_files import kept_secret
from lorebus_ops.processes import Program
from lorebus_ops.supervisor import AfterRestart, Supervised, Supervisor

T = TypeVar("T")

READY_SECONDS: Final = 60.0
STARTS: Final = 6
"""A server may find its port taken, or its data still held by one that was killed a moment ago."""

SHOWN_LINES: Final = 15


class Progress(Protocol):
    """Who watches the start."""

    def begun(self, step: str) -> None:
        """The step began; several run at the same time."""

    def done(self, step: str) -> None:
        """The step is done."""


class _Nobody:
    def begun(self, step: str) -> None: ...

    def done(self, step: str) -> None: ...


class LocalStack:
    """The local stack of one folder, for `async with`; `info` says where everything is.

    `log` is a terminal that gets the programs' lines from the moment that all is ready; the file
    `log/lorebus.log` in the folder gets all of them. `services` are started of ALL_SERVICES; `extra_env` is
    added to their environment.

    Raises (on entry):
        AlreadyRunningError: another process keeps the stack of this folder.
        StackError: a part did not start; what had started is gone again.
    """

    def __init__(
        self,
        home: Path,
        *,
        log: TextIO | None = None,
        services: Sequence[str] = ALL_SERVICES,
        extra_env: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.home = Home(home.absolute())
        self._terminal = log
        self._services = tuple(services)
        self._extra_env = dict(extra_env or {})
        self._progress = progress or _Nobody()
        self._info: LocalInfo | None = None
        self._cleanup = AsyncExitStack()
        self._children: dict[str, Supervised] = {}

    @property
    def info(self) -> LocalInfo:
        """Where everything is; only while the stack is entered."""
        if self._info is None:
            raise StackError("the local stack is not up")
        return self._info

    def process_id(self, name: str) -> int | None:
        """The process of `database`, `broker` or a service now; None between two."""
        return self._children[name].process_id

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as cleanup:
            await self._start(cleanup)
            self._cleanup = cleanup.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._cleanup.aclose()

    async def _start(self, cleanup: AsyncExitStack) -> None:
        # What is entered first is left last: services end before the broker, the broker before PostgreSQL.
        cleanup.enter_context(self.home.locked())
        self._log = LineLog(self.home.log_path)
        cleanup.callback(self._log.close)
        self._supervisor = Supervisor(self._log)
        postgres = EmbeddedPostgres(self.home.folder)
        cleanup.callback(postgres.close)
        cleanup.push_async_callback(self._stop, "database")
        cleanup.push_async_callback(self._stop, "broker")
        cleanup.push_async_callback(self._stop, *self._services)
        port, servers, _ = await _together(
            [self._start_database(postgres), self._start_broker(), _load_preparing()]
        )
        owner_url, database_url = postgres.url(int(port)), postgres.service_url(int(port))
        api_key, _ = await _together([self._migrate(owner_url, database_url), self._make_topics(servers)])
        urls = await self._start_services(database_url, servers)
        self._info = LocalInfo(
            gateway_url=urls.get(GATEWAY, ""),
            api_key=api_key,
            organization_uuid=str(LOCAL_ORGANIZATION),
            bootstrap_servers=servers,
            database_url=database_url,
            migrations_database_url=owner_url,
            services=urls,
            pid=os.getpid(),
        )
        self.home.publish(self._info)
        cleanup.callback(self._withdraw)
        self._log.show_on(self._terminal)

    async def _start_database(self, postgres: EmbeddedPostgres) -> str:
        with self._step("database"):
            await asyncio.to_thread(postgres.prepare)

            async def takes_connections(child: Supervised, _port: int) -> bool:
                return child.process_id is not None and postgres.is_ready(child.process_id)

            port = await self._start_on_free_port(postgres.program, takes_connections)
        return str(port)

    async def _start_broker(self) -> str:
        with self._step("broker"):

            async def answers(_child: Supervised, port: int) -> bool:
                return accepts_connections(port)

            port = await self._start_on_free_port(broker_program, answers, self._make_topics_again)
        return bootstrap_servers(port)

    async def _migrate(self, owner_url: str, service_url: str) -> str:
        from lorebus_ops.preparing import prepare_database  # noqa: PLC0415 - Loaded by now.

        with self._step("migrations"):
            return await prepare_database(owner_url, service_url, self.home.key_path)

    async def _make_topics(self, servers: str) -> str:
        from lorebus_ops.preparing import prepare_broker  # noqa: PLC0415 - Loaded by now.

        with self._step("topics"):
            return await prepare_broker(servers)

    async def _make_topics_again(self) -> None:
        if self._info is None:
            return
        try:
            await self._make_topics(self._info.bootstrap_servers)
        except StackError as error:
            self._log.say(f"after the broker's restart: {error}")
        else:
            self._log.say("the broker began empty; its topics are made again")

    async def _start_services(self, database_url: str, servers: str) -> dict[str, str]:
        surroundings = Surroundings(
            database_url=database_url,
            bootstrap_servers=servers,
            token_secret=kept_secret(self.home.folder / "token.secret"),
            extra_env=self._extra_env,
        )
        with self._step("services"):
            async with httpx.AsyncClient(trust_env=False) as client:
                starts = [self._start_service(name, surroundings, client) for name in self._services]
                urls = await _together(starts)
        return dict(zip(self._services, urls, strict=True))

    async def _start_service(self, name: str, surroundings: Surroundings, client: httpx.AsyncClient) -> str:
        async def says_ready(_child: Supervised, port: int) -> bool:
            # A request costs far more than a look at the port, and the services that start need the processor.
            return accepts_connections(port) and await is_ready(client, service_url(port))

        port = await self._start_on_free_port(
            lambda port: service_program(name, port, surroundings),
            says_ready,
            choose=partial(choose_port, name),
            starts=2,
        )
        return service_url(port)

    async def _start_on_free_port(
        self,
        program_at: Callable[[int], Program],
        is_up: Callable[[Supervised, int], Awaitable[bool]],
        after_restart: AfterRestart | None = None,
        *,
        choose: Callable[[], int] = free_port,
        starts: int = STARTS,
    ) -> int:
        backoff = Backoff()
        for _ in range(starts):
            port = choose()
            program = program_at(port)
            child = await self._supervisor.start(program, after_restart)
            self._children[program.name] = child
            if await child.wait_until(partial(is_up, child, port), seconds=READY_SECONDS):
                return port
            ended = child.ends > 0
            await self._supervisor.stop(child)
            if not ended:
                break
            await asyncio.sleep(backoff.next_seconds())
        last_lines = "\n".join(self._log.tail(program.name, SHOWN_LINES))
        raise StackError(
            f"{program.name} did not start; its last lines in {self.home.log_path}:\n{last_lines}"
        )

    async def _stop(self, *names: str) -> None:
        children = [self._children[name] for name in names if name in self._children]
        if children:
            await self._supervisor.stop(*children)

    def _withdraw(self) -> None:
        self._info = None
        self.home.withdraw()

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self._progress.begun(name)
        yield
        self._progress.done(name)


async def _load_preparing() -> str:
    return (await asyncio.to_thread(importlib.import_module, "lorebus_ops.preparing")).__name__


async def _together(work: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """What each gave, in order; when one fails the others are cancelled and its error is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [task.result() for task in tasks]
