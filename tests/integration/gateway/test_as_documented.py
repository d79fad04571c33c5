"""Generated requests to every route of the OpenAPI document: each answer is one that the document tells of.

They go to a gateway and consumers that are processes of their own. `LOREBUS_TEST_HTTP_EXAMPLES` is how many requests
each route gets besides those at the boundaries of its schema; with it they are other ones each time.
"""

import asyncio
import contextlib
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from uuid import UUID, uuid4

import httpx
import pytest
import requests
import schemathesis
from jsonschema import Draft202012Validator
from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test

from lorebus_gateway.endpoints import AnyRoute
from lorebus_gateway.routes import ROUTES
from lorebus_kit.keys import create_key
from lorebus_kit.topics import apply_topics
from lorebus_store.database import Database
from tests.support.known_things import KnownThings, known_things
from tests.support.services import services

EXAMPLES: Final = os.environ.get("LOREBUS_TEST_HTTP_EXAMPLES")
SECONDS: Final = 60.0
EVENT: Final = re.compile(r"^event: (.+)\n(?:id: .*\n)?data: (.*)$", re.MULTILINE)
CONSUMERS: Final = ("save", "distill", "prune", "recall_labeller")


Case: TypeAlias = schemathesis.Case[Any]
Operation: TypeAlias = schemathesis.APIOperation[Any, Any, Any, Any]


@dataclass(slots=True)
class Stack:
    """The stack under test, and what is known there."""

    url: str
    known: KnownThings
    session: requests.Session
    turn: Iterator[int] = field(default_factory=itertools.count)

    def settings_are_as_at_first(self) -> None:
        """Undo what was set for the whole organization."""
        answer = self.session.put(
            f"{self.url}/api/app/organization",
            json={},
            headers={"Authorization": f"Bearer {self.known.api_key}"},
            timeout=SECONDS,
        )
        assert answer.status_code == 200, answer.text


async def new_key(database_url: str, organization: UUID) -> str:
    database = Database(database_url, pool_size=1)
    try:
        return await create_key(database, organization, name="documented")
    finally:
        await database.dispose()


@pytest.fixture(scope="module")
def stack(module_database_url: str, bootstrap_servers: str) -> Iterator[Stack]:
    prefix, organization = f"t{uuid4().hex[:12]}.", uuid4()
    with asyncio.Runner() as runner, contextlib.ExitStack() as last:
        runner.run(apply_topics(bootstrap_servers, prefix=prefix, partitions=2))
        running = services(
            "gateway",
            *CONSUMERS,
            database_url=module_database_url,
            bootstrap_servers=bootstrap_servers,
            topic_prefix=prefix,
            extra={"LOREBUS_FEED_LONGEST_SECONDS": "0.05"},
            wait=False,
        )
        gateway, *consumers = runner.run(running.__aenter__())
        last.callback(lambda: runner.run(running.__aexit__(None, None, None)))
        for service in (gateway, *consumers):
            runner.run(service.ready())
        key = runner.run(new_key(module_database_url, organization))
        with httpx.Client(base_url=gateway.url, trust_env=False, timeout=SECONDS) as client:
            known = known_things(client, str(organization), key)
        with requests.Session() as session:
            session.trust_env = False
            yield Stack(gateway.url, known, session)


@pytest.fixture(scope="module")
def document(stack: Stack) -> schemathesis.BaseSchema:
    config = schemathesis.Config.from_dict(
        {
            "seed": None if EXAMPLES else 1,
            "base-url": stack.url,
            "request-timeout": SECONDS,
            "generation": {
                "deterministic": EXAMPLES is None,
                "max-examples": int(EXAMPLES or "20"),
                "database": "none",
                "with-security-parameters": False,
            },
        }
    )
    return schemathesis.openapi.from_url(f"{stack.url}/openapi.json", config=config)


def credentials(case: Case, known: KnownThings, turn: int) -> dict[str, str]:
    """Such as the route's security says; by turns where it takes either."""
    ways = [name for way in case.operation.definition.raw["security"] for name in way]
    if not ways:
        return {}
    token = (
        f"Agent {known.session_token}"
        if ways[turn % len(ways)] == "sessionToken"
        else f"Bearer {known.api_key}"
    )
    return {"Authorization": token}


def with_what_exists(case: Case, known: KnownThings, turn: int) -> None:
    """Ids that exist in the place of those generated, three times of four; and what no schema can say."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    operation = case.operation.definition.raw["operationId"]
    places: list[Any] = [case.path_parameters, case.query, case.body]
    if isinstance(case.body, dict):
        places.append(case.body.get("initial_data"))
        if case.body.get("workflow_type") == "agents.memory-prune":
            operation = "prune_memory"
        if "model_profile" in case.body:
            # Only a model that is set up may be tried.
            case.body["model_profile"] = "trace-rules"
        if "entries" in case.body and operation == "import_memory":
            # The end of a file without entries.
            case.body["entries"] = 0
    if case.query and case.query.get("shared") == "true":
        # The shared pool has no principal; OpenAPI has no words for two parameters that exclude each other.
        case.query.pop("principal_ref", None)
    for place in places if turn % 4 < 3 else ():
        for name in place if isinstance(place, MutableMapping) else ():
            if place[name] is not None:
                place[name] = known.id_for(operation, name, turn) or place[name]


@schemathesis.serializer("application/x-ndjson")
def as_file(_: schemathesis.SerializationContext, line: object) -> bytes:
    """A file around the line that was generated: a header, an entry or an end, or what should be one."""
    header: dict[str, object] = {"format": "lorebus.memory", "version": 1}
    end: dict[str, object] = {"end": True, "entries": 0}
    lines: list[object]
    if isinstance(line, dict) and line.keys() <= header.keys():
        lines = [line, end]
    elif isinstance(line, dict) and line.keys() <= end.keys():
        lines = [header, line]
    else:
        lines = [header, line, {"end": True, "entries": 1}]
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


def events_hold(_: schemathesis.CheckContext, answer: schemathesis.Response, case: Case) -> None:
    """The data of each event is what the document says of events of its name."""
    if answer.headers.get("content-type") != ["text/event-stream"]:
        return
    document = case.operation.schema.raw_schema
    told = case.operation.definition.raw["responses"]["200"]["content"]["text/event-stream"]["schema"][
        "anyOf"
    ]
    data_of = {
        event["properties"]["event"]["const"]: event["properties"]["data"]["contentSchema"] for event in told
    }
    for name, data in EVENT.findall(answer.text):
        Draft202012Validator({**data_of[name], "components": document["components"]}).validate(
            json.loads(data)
        )


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_answer_is_as_documented(
    route: AnyRoute, stack: Stack, document: schemathesis.BaseSchema
) -> None:
    answered = set()
    stack.settings_are_as_at_first()

    def holds(case: Case) -> None:
        turn = next(stack.turn)
        with_what_exists(case, stack.known, turn)
        answer = case.call_and_validate(
            session=stack.session,
            headers=credentials(case, stack.known, turn),
            additional_checks=[events_hold],
        )
        answered.add(answer.status_code)

    generated(document[route.path][route.method], holds)()

    assert any(status < 300 for status in answered), answered


def generated(operation: Operation, holds: Callable[[Case], None]) -> Callable[[], None]:
    """Hypothesis' test that the function holds of what is generated for the operation, its boundaries first."""
    config = operation.schema.config
    return create_test(
        operation=operation,
        test_func=holds,
        config=HypothesisTestConfig(
            project=config,
            modes=list(HypothesisTestMode),
            settings=config.get_hypothesis_settings(operation=operation, phase="fuzzing"),
            seed=config.seed,
        ),
    )
