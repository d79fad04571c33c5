"""What `lorebus memory list` and `lorebus memory erase` do."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID, uuid4

from lorebus_contracts.http_answers import MemoryItem, MemoryPage
from lorebus_contracts.http_memory import ErasureReceipt
from lorebus_ops.answers import carried_out, note, say, say_fields, say_json, say_table
from lorebus_ops.gateway_client import MEMORY, gateway, sound

_SHOWN_CHARS: Final = 100


def list_found(conditions: Mapping[str, object], *, page: int, every: bool, as_json: bool) -> None:
    """Tell of a page of entries, or of that page and all behind it.

    Raises:
        typer.Exit: 1, the gateway refused; 3, it cannot be reached.
    """
    pages = carried_out(_pages(conditions, page, every=every))
    entries = [entry for one in pages for entry in one.items]
    if as_json:
        found = [entry.model_dump(mode="json") for entry in entries]
        say_json({"entries": found, "total": pages[-1].total, "has_more": pages[-1].has_more})
        return
    say_table(
        ("entry", "importance", "confirmed", "used", "principal", "text"), [_row(entry) for entry in entries]
    )
    if pages[-1].has_more:
        note(f"{len(entries)} of {pages[-1].total}: --page {pages[-1].page + 1} has the next, --every all")


def erase_subject(
    *, principal: str | None, agent_config: UUID | None, session: UUID | None, as_json: bool
) -> None:
    """Erase, and tell what is gone.

    Raises:
        typer.Exit: 1, the gateway refused; 3, it cannot be reached, or could not do it now.
    """
    body = {"principal_ref": principal, "agent_config_uuid": agent_config, "session_uuid": session}
    receipt = carried_out(_erase({name: str(value) for name, value in body.items() if value is not None}))
    if as_json:
        say_json(receipt.model_dump(mode="json"))
        return
    say(f"erased at {receipt.erased_at.isoformat()}; the receipt is {receipt.erasure_id}")
    say_fields({name.replace("_", " "): count for name, count in receipt.counts})
    say(f"the bus may hold records of it until {receipt.bus_keeps_until.isoformat()}; they are skipped")


async def _pages(conditions: Mapping[str, object], page: int, *, every: bool) -> list[MemoryPage]:
    asked = {name: str(value) for name, value in conditions.items() if value is not None}
    pages: list[MemoryPage] = []
    async with gateway() as client:
        while not pages or (every and pages[-1].has_more):
            answer = await client.get(MEMORY, params={**asked, "page": str(page + len(pages))})
            pages.append(MemoryPage.model_validate_json((await sound(answer)).content))
    return pages


async def _erase(body: Mapping[str, str]) -> ErasureReceipt:
    async with gateway() as client:
        answer = await client.post(f"{MEMORY}/erase", json=body, headers={"idempotency-key": uuid4().hex})
        return ErasureReceipt.model_validate_json((await sound(answer)).content)


def _row(entry: MemoryItem) -> tuple[object, ...]:
    line = " ".join(entry.text.split())
    shown = line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]} ..."
    return (
        *(entry.id, f"{entry.importance:.2f}", entry.reinforcement_count, entry.access_count),
        *(entry.principal_ref or "(shared)", shown),
    )
