"""What an organization looks after: its settings, its entries, and the receipts of its recalls.

The rule that must not break: everything is looked up within the key's own organization, so that what is somebody
else's is not there.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from lorebus_contracts.events import ChangeKind, MemoryChanged, Origin
from lorebus_contracts.http import AgentConfigBody, MemoryQuery, OrganizationBody, PruneBody
from lorebus_contracts.http_answers import (
    AgentConfigAnswer,
    LowEntry,
    MemoryItem,
    MemoryPage,
    OrganizationAnswer,
    PrunePreview,
    Receipt,
)
from lorebus_domain.quarantine import EntryState
from lorebus_gateway.errors import NotFoundError
from lorebus_gateway.known_scopes import require_agent_config
from lorebus_gateway.receipts import receipt_answer
from lorebus_kit.emitting import outbox_row
from lorebus_store import memories, outbox, recalls, settings
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.memories import EntryDetails

SHOWN_OF_A_PRUNE: Final = 100
"""Entries that a dry run shows."""


class Administration:
    """An organization's own view of its memory."""

    def __init__(
        self, database: Database, *, wake_relay: Callable[[], None], forget: Callable[[], None]
    ) -> None:
        """`forget` is called when settings have changed."""
        self._database = database
        self._wake_relay = wake_relay
        self._forget = forget

    async def put_organization(self, organization_uuid: UUID, body: OrganizationBody) -> OrganizationAnswer:
        """Replace the organization's settings."""
        async with self._database.begin(Tenants.of(organization_uuid)) as connection:
            kept = await settings.put_organization(
                connection,
                organization_uuid,
                memory_enabled=body.memory_enabled,
                model_profile=body.model_profile,
            )
        self._forget()
        return _organization_answer(organization_uuid, kept)

    async def get_organization(self, organization_uuid: UUID) -> OrganizationAnswer:
        """The organization's settings.

        Raises:
            NotFoundError: nobody has put any.
        """
        async with self._database.read(Tenants.of(organization_uuid)) as connection:
            kept = await settings.get_organization(connection, organization_uuid)
        if kept is None:
            raise NotFoundError
        return _organization_answer(organization_uuid, kept)

    async def put_agent_config(
        self, organization_uuid: UUID, agent_config_uuid: UUID, body: AgentConfigBody
    ) -> AgentConfigAnswer:
        """Replace an agent config's settings; an unknown one is made."""
        async with self._database.begin(Tenants.of(organization_uuid)) as connection:
            kept = await settings.put_agent_config(
                connection,
                organization_uuid,
                agent_config_uuid,
                memory_enabled=body.memory_enabled,
                memory_write_enabled=body.memory_write_enabled,
                memory_strategy=body.memory_strategy,
                memory_top_k=body.memory_top_k,
                memory_max_entries=body.memory_max_entries,
                memory_pack_reach=body.memory_pack_reach,
            )
        self._forget()
        return _config_answer(agent_config_uuid, kept)

    async def get_agent_config(self, organization_uuid: UUID, agent_config_uuid: UUID) -> AgentConfigAnswer:
        """An agent config's settings.

        Raises:
            NotFoundError: the organization has no such config.
        """
        async with self._database.read(Tenants.of(organization_uuid)) as connection:
            kept = await settings.get_agent_config(connection, organization_uuid, agent_config_uuid)
        if kept is None:
            raise NotFoundError
        return _config_answer(agent_config_uuid, kept)

    async def list_memory(self, organization_uuid: UUID, query: MemoryQuery) -> MemoryPage:
        """A page of an agent config's entries, or of what it holds back, highest importance first.

        Raises:
            NotFoundError: the organization has no such config.
        """
        async with self._database.read(Tenants.of(organization_uuid)) as connection:
            await require_agent_config(connection, organization_uuid, query.agent_config_uuid)
            page = await memories.list_page(
                connection,
                organization_uuid,
                query.agent_config_uuid,
                page=query.page,
                per_page=query.per_page,
                state=query.state,
                min_importance=query.min_importance,
                principal_ref=query.principal_ref,
                shared=query.shared,
                origin=query.origin,
                words=query.words(),
            )
        return MemoryPage(
            items=tuple(map(memory_item, page.items)),
            page=query.page,
            per_page=query.per_page,
            total=page.total,
            has_more=page.total > query.page * query.per_page,
        )

    async def would_prune(self, organization_uuid: UUID, body: PruneBody) -> PrunePreview:
        """What a prune would delete now; nothing is touched.

        Raises:
            NotFoundError: the organization has no such config.
        """
        pair = (organization_uuid, body.agent_config_uuid)
        async with self._database.read(Tenants.of(organization_uuid)) as connection:
            config = await settings.get_agent_config(connection, *pair)
            if config is None:
                raise NotFoundError
            keep = config.memory_max_entries if body.max_entries is None else body.max_entries
            found = await memories.would_prune(connection, pair, keep=keep, limit=SHOWN_OF_A_PRUNE)
        return PrunePreview(
            agent_config_uuid=body.agent_config_uuid,
            max_entries=keep,
            would_delete=found.excess,
            would_remain=found.remaining,
            first=tuple(LowEntry(**entry._asdict()) for entry in found.first),
        )

    async def delete_entry(self, organization_uuid: UUID, entry_id: UUID, *, now: datetime) -> None:
        """Delete an entry, and say so on the bus.

        Raises:
            NotFoundError: the organization has no such entry.
        """
        async with self._database.begin(Tenants.of(organization_uuid)) as connection:
            gone = await memories.delete_entry(connection, organization_uuid, entry_id)
            if gone is None:
                raise NotFoundError
            change = MemoryChanged(
                event_id=uuid4(),
                occurred_at=now,
                organization_uuid=organization_uuid,
                agent_config_uuid=gone.agent_config_uuid,
                kind=ChangeKind.DELETED,
                ids=(entry_id,),
                count=1,
            )
            await outbox.add(connection, [outbox_row(change)], notify=False)
        self._wake_relay()

    async def receipt(self, organization_uuid: UUID, recall_or_pack_id: UUID) -> Receipt:
        """What a recall handed out and left out, and what became of its session.

        Raises:
            NotFoundError: the organization has no such recall, or it is not recorded yet.
        """
        async with self._database.read(Tenants.of(organization_uuid)) as connection:
            kept = await recalls.receipt(connection, organization_uuid, recall_or_pack_id)
        if kept is None:
            raise NotFoundError
        return receipt_answer(kept)


def _organization_answer(organization_uuid: UUID, kept: settings.OrganizationSettings) -> OrganizationAnswer:
    return OrganizationAnswer(
        organization_uuid=organization_uuid,
        memory_enabled=kept.memory_enabled,
        model_profile=kept.model_profile,
    )


def _config_answer(agent_config_uuid: UUID, kept: settings.ConfigSettings) -> AgentConfigAnswer:
    return AgentConfigAnswer(
        agent_config_uuid=agent_config_uuid,
        memory_enabled=kept.memory_enabled,
        memory_write_enabled=kept.memory_write_enabled,
        memory_strategy=kept.memory_strategy,
        memory_top_k=kept.memory_top_k,
        memory_max_entries=kept.memory_max_entries,
        memory_pack_reach=kept.memory_pack_reach,
    )


def memory_item(entry: EntryDetails) -> MemoryItem:
    """An entry as its organization sees it."""
    return MemoryItem(
        id=entry.id,
        agent_config_uuid=entry.agent_config_uuid,
        principal_ref=entry.principal_ref,
        text=entry.text,
        importance=entry.importance,
        reinforcement_count=entry.reinforcement_count,
        echo_count=entry.echo_count,
        access_count=entry.access_count,
        origin=Origin(entry.origin),
        session_uuid=entry.session_uuid,
        provenance=None if entry.provenance is None else dict(entry.provenance),
        created_at=entry.created_at,
        updated_at=entry.updated_at,
        state=EntryState(entry.state),
        held_for=entry.quarantine_reason,
    )
