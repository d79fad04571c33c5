"""Asking a gateway over HTTP, with an organization's key, and saying in one line what it refused."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx2

from lorebus_contracts.problems import Problem
from lorebus_ops.errors import RefusedError, StackError, UnreachableError
from lorebus_ops.home import Home, default_home
from lorebus_ops.target import KEY_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE, Target, find_target, is_here

MEMORY: Final = "/api/app/agents/memory"
CONNECT_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 120.0
"""Longer than the gateway is silent while it erases or imports."""
_FIRST_OF_SERVERS: Final = 500


def named_target(url: str | None = None) -> Target:
    """The gateway at `url`, or else the one that the environment names, or else the running local stack's.

    Raises:
        UnreachableError: there is none, or no key for it.
    """
    environment = {k: v for k, v in os.environ.items() if k != TOKEN_VARIABLE}
    if url is not None:
        environment[URL_VARIABLE] = url
    try:
        return find_target(environment, Home(default_home()).running())
    except StackError as error:
        text = str(error).replace(f"{KEY_VARIABLE} or {TOKEN_VARIABLE}", KEY_VARIABLE)
        raise UnreachableError(text) from error


@asynccontextmanager
async def gateway(url: str | None = None, *, connections: int = 10) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the gateway that is named, by `url` or the environment, or else of the running local stack's.

    It keeps up to `connections` open.

    Raises:
        UnreachableError: there is none, or it does not answer.
        RefusedError: there is no key for it.
    """
    target = named_target(url)
    client = httpx2.AsyncClient(
        base_url=target.url,
        headers={"authorization": target.authorization},
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=SILENCE_SECONDS, write=SILENCE_SECONDS),
        limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
        trust_env=not is_here(target.url),
    )
    async with client:
        try:
            yield client
        except httpx2.TransportError as error:
            raise UnreachableError(
                f"the gateway at {target.url} does not answer ({type(error).__name__})"
            ) from error


async def sound(answer: httpx2.Response) -> httpx2.Response:
    """The answer, if it is a good one.

    Raises:
        RefusedError: the gateway refused; the text is its problem document in words.
        UnreachableError: it cannot do its work now.
    """
    if answer.is_success:
        return answer
    await answer.aread()
    text = _told(answer)
    if answer.status_code >= _FIRST_OF_SERVERS:
        raise UnreachableError(text)
    raise RefusedError(text)


def _told(answer: httpx2.Response) -> str:
    try:
        problem = Problem.model_validate_json(answer.content)
    except ValueError:
        return f"the gateway answered {answer.status_code}"
    faults = (f"{fault.path or 'the whole'}: {fault.problem}" for fault in problem.faults)
    return "\n  ".join([f"{problem.status} {problem.title}: {problem.detail}", *faults])
