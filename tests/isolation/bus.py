"""The bus as a session runtime writes to it: events in JSON, made without the product's models."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaProducer


class Bus:
    """A producer for the topics behind a prefix."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._prefix = prefix
        self._producer: AIOKafkaProducer | None = None

    async def __aenter__(self) -> Self:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap_servers, enable_idempotence=False, acks="all"
        )
        await self._producer.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._producer is not None:
            await self._producer.stop()

    async def publish(self, topic: str, key: str, event: Mapping[str, object]) -> None:
        """Publish an event and wait until the broker has it."""
        if self._producer is None:
            raise RuntimeError("the bus is not open")
        value = json.dumps({"schema_version": 1, **event}).encode()
        await self._producer.send_and_wait(self._prefix + topic, value=value, key=key.encode())


def now() -> str:
    """This moment, as events tell it."""
    return datetime.now(UTC).isoformat()
