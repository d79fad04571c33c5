"""Distilled lessons as their organization looks after them: a distill tried, what is held released, evidence shown.

The rule that must not break: a preview saves nothing; and what is held becomes memory, and is told of as such, only
by a person's release.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from lorebus_contracts.events import ChangeKind, MemoryChanged
from lorebus_contracts.http_answers import MemoryItem
from lorebus_contracts.http_lessons import (
    EntryEvidence,
    EvidenceItem,
    PreviewAnswer,
    PreviewBody,
    PreviewLesson,
    PreviewPrompt,
)
from lorebus_contracts.wire import Fault, WireError
from lorebus_gateway.administration import memory_item
from lorebus_gateway.errors import NotFoundError
from lorebus_kit.emitting import outbox_row
from lorebus_kit.providers.directory import Providers
from lorebus_kit.providers.errors import ProviderRefusedError
from lorebus_kit.providers.port import Provider
from lorebus_kit.providers.preview import Preview, preview
from lorebus_store import evidence, memories, outbox, quarantine, settings
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.errors import TransientError

EVIDENCE_SHOWN: Final = 100
PREVIEWS_AT_ONCE: Final = 4
"""By one process; each may hold a connection of its client for as long as a model takes."""


class Lessons:
    """An organization's own view of what its sessions teach."""

    def __init__(self, database: Database, providers: Providers, *, wake_relay: Callable[[], None]) -> None:
        self._database = database
        self._providers = providers
        self._wake_relay = wake_relay
        self._previewing = 0

    async def preview(self, organization_uuid: UUID, body: PreviewBody) -> PreviewAnswer:
        """What a distill of this session would say and teach; nothing is saved.

        Raises:
            WireError: no such model.
            TransientError: too many previews at once, or the database is away.
        """
        provider = await self._provider(organization_uuid, body.model_profile)
        if self._previewing >= PREVIEWS_AT_ONCE:
            raise TransientError("as many previews as may be at once are in hand")
        self._previewing += 1
        try:
            made = await preview(
                provider,
                organization_uuid=organization_uuid,
                outcome=body.outcome,
                task=body.task,
                trace=body.trace,
            )
        finally:
            self._previewing -= 1
        return _preview_answer(made)

    async def release(self, organization_uuid: UUID, entry_id: UUID, *, now: datetime) -> MemoryItem:
        """Make an entry that is held back memory, and say so on the bus.

        Raises:
            NotFoundError: the organization holds no such entry back.
        """
        async with self._database.begin(Tenants.of(organization_uuid)) as connection:
            config = await quarantine.release(connection, organization_uuid, entry_id)
            entry = await memories.get_entry(connection, organization_uuid, entry_id)
            if config is None or entry is None:
                raise NotFoundError
            change = MemoryChanged(
                event_id=uuid4(),
                occurred_at=now,
                organization_uuid=organization_uuid,
                agent_config_uuid=config,
                kind=ChangeKind.SAVED,
                ids=(entry_id,),
                count=1,
            )
            await outbox.add(connection, [outbox_row(change)], notify=False)
        self._wake_relay()
        return memory_item(entry)

    async def evidence(self, organization_uuid: UUID, entry_id: UUID) -> EntryEvidence:
        """Which sessions taught an entry, newest first, and which of them had recalled it.

        Raises:
            NotFoundError: the organization has no such entry.
        """
        async with self._database.read(Tenants.of(organization_uuid)) as connection:
            entry = await memories.get_entry(connection, organization_uuid, entry_id)
            rows = await evidence.of_entry(connection, organization_uuid, entry_id, limit=EVIDENCE_SHOWN)
        if entry is None:
            raise NotFoundError
        return EntryEvidence(
            entry_id=entry_id,
            saves=entry.reinforcement_count + 1,
            echoes=entry.echo_count,
            items=tuple(
                EvidenceItem(
                    kind=row.kind, session_uuid=row.session_uuid, workflow_id=row.event_id, at=row.at
                )
                for row in rows
            ),
        )

    async def _provider(self, organization_uuid: UUID, profile_name: str | None) -> Provider:
        if profile_name is None:
            async with self._database.read(Tenants.of(organization_uuid)) as connection:
                known = await settings.get_organization(connection, organization_uuid)
            profile_name = None if known is None else known.model_profile
        try:
            return self._providers.of(profile_name)
        except ProviderRefusedError as error:
            raise WireError(Fault("model_profile", "names no model that is set up here")) from error


def _preview_answer(made: Preview) -> PreviewAnswer:
    prompt, distilled = made.transcript.prompt, made.distilled
    cost = None if distilled is None else distilled.cost
    return PreviewAnswer(
        provider=made.provider,
        provider_version=made.version,
        model=None if cost is None else cost.model,
        prompt=None
        if prompt is None
        else PreviewPrompt(version=prompt.version, system=prompt.system, user=prompt.user),
        answers=tuple(made.transcript.answers),
        lessons=tuple(
            PreviewLesson(text=one.lesson.text, importance=one.lesson.importance, held_for=one.held_for)
            for one in made.lessons
        ),
        dropped=0 if distilled is None else distilled.dropped,
        folded=0 if distilled is None else distilled.folded,
        redacted=dict(made.redacted),
        dropped_calls=made.dropped_calls,
        prompt_tokens=None if cost is None else cost.prompt_tokens,
        completion_tokens=None if cost is None else cost.completion_tokens,
        milliseconds=None if cost is None else cost.milliseconds,
        price=None if cost is None else cost.price,
        skipped_reason=made.skipped_reason,
        failure_reason=made.failure_reason,
        error=made.error,
    )
