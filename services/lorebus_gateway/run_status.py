"""How a run is: from its row, from its recall record, or from its id alone.

The rule that must not break: the answer is true. A run that was accepted and has no row yet is `initiated`; a load is
answered at once and so is `completed`; an id that was never given out, or not to this organization, is not there.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Final, TypeAlias
from uuid import UUID

from pydantic import JsonValue

from lorebus_contracts.http import LISTED_TYPES, RunQuery
from lorebus_contracts.http_answers import RunHistory, RunList, RunSnapshot, RunStep
from lorebus_contracts.workflows import State, WorkflowType
from lorebus_domain.recall import Strategy, render
from lorebus_gateway.authentication import Organization
from lorebus_gateway.errors import NotFoundError
from lorebus_kit.run_ids import RunIds
from lorebus_kit.tokens import SessionClaims
from lorebus_store import recalls, runs
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.recalls import Receipt
from lorebus_store.run_rows import FinishedRun, InitiatedRun, Run

Asker: TypeAlias = SessionClaims | Organization

_OF_SESSIONS: Final = (WorkflowType.MEMORY_SAVE, WorkflowType.MEMORY_LOAD)
"""The types that a session starts."""
_WITHOUT_ROW: Final = (*_OF_SESSIONS, WorkflowType.MEMORY_PRUNE)
"""The types whose runs may be asked for before they have a row."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A run, and the session it is about, which may see it as well."""

    session_uuid: UUID | None
    snapshot: RunSnapshot
    history: RunHistory


class RunStatus:
    """Tells an organization, or the session that started it, how a run is."""

    def __init__(self, database: Database, run_ids: RunIds) -> None:
        self._database = database
        self._run_ids = run_ids

    async def snapshot(self, asker: Asker, run_id: UUID, *, now: datetime) -> RunSnapshot:
        """How the run is now.

        Raises:
            NotFoundError: the asker has no such run.
            TransientError: the database is away.
        """
        return (await self._find(asker, run_id, now)).snapshot

    async def history(self, asker: Asker, run_id: UUID, *, now: datetime) -> RunHistory:
        """All that happened to the run, oldest first.

        Raises:
            NotFoundError, TransientError: as `snapshot`.
        """
        return (await self._find(asker, run_id, now)).history

    async def latest(self, organization_uuid: UUID, query: RunQuery) -> RunList:
        """The organization's latest runs of a type and a state, or of any, newest first; those that have a row.

        Raises:
            TransientError: the database is away.
        """
        kinds = LISTED_TYPES if query.type is None else (query.type,)
        states = tuple(State) if query.state is None else (query.state,)
        found: list[Run] = []
        async with self._database.read(Tenants.of(organization_uuid)) as connection:
            for kind, state in product(kinds, states):
                found += await runs.list_runs(
                    connection, organization_uuid, run_type=kind, state_name=state, limit=query.limit
                )
        found.sort(key=lambda run: (run.created_at, run.id), reverse=True)
        return RunList(runs=tuple(map(run_snapshot, found[: query.limit])))

    async def _find(self, asker: Asker, run_id: UUID, now: datetime) -> _Found:
        found = await self._stored(asker.organization_uuid, run_id) or self._accepted(asker, run_id, now)
        if found is None or not _may_see(asker, found):
            raise NotFoundError
        return found

    async def _stored(self, organization_uuid: UUID, run_id: UUID) -> _Found | None:
        async with self._database.read(Tenants.of(organization_uuid)) as connection:
            run = await runs.get_run(connection, organization_uuid, run_id)
            if run is not None:
                return _of_run(run)
            receipt = await recalls.receipt(connection, organization_uuid, run_id)
        # A pack's id finds its receipt, but names no run.
        return _of_load(receipt) if receipt is not None and receipt.recall_id == run_id else None

    def _accepted(self, asker: Asker, run_id: UUID, now: datetime) -> _Found | None:
        """A run that was given out and has no row yet; which session started it, nobody can say yet."""
        organization_uuid = asker.organization_uuid
        kinds = _OF_SESSIONS if isinstance(asker, SessionClaims) else _WITHOUT_ROW
        run = self._run_ids.recognise(run_id, organization_uuid, among=kinds, now=now)
        if run is None:
            return None
        state = State.COMPLETED if run.workflow_type is WorkflowType.MEMORY_LOAD else State.INITIATED
        snapshot = RunSnapshot(
            workflow_id=run_id,
            workflow_type=run.workflow_type,
            state_name=state,
            is_terminal=state.is_terminal,
            state_data={"organization_uuid": str(organization_uuid)},
            created_at=run.made_at,
            updated_at=run.made_at,
        )
        session_uuid = asker.session_uuid if isinstance(asker, SessionClaims) else None
        return _Found(session_uuid, snapshot, _straight_to(state, run_id, run.made_at))


def initiated_snapshot(run: InitiatedRun) -> RunSnapshot:
    """A run as it is when it has just been accepted."""
    return _snapshot(run, State.INITIATED, json.loads(run.state_data), run.created_at)


def finished_snapshot(run: FinishedRun) -> RunSnapshot:
    """A run that ended just now."""
    return _snapshot(run, run.state_name, json.loads(run.state_data), run.finished_at)


def run_snapshot(run: Run) -> RunSnapshot:
    """A run as its row has it."""
    return _snapshot(run, run.state_name, run.state_data, run.updated_at)


def _snapshot(
    run: InitiatedRun | FinishedRun | Run, state: State, data: Mapping[str, JsonValue], updated_at: datetime
) -> RunSnapshot:
    """The snapshot, with the inputs that the row's own columns hold."""
    inputs: dict[str, JsonValue] = {
        "organization_uuid": str(run.organization_uuid),
        "agent_config_uuid": str(run.agent_config_uuid),
    }
    if run.session_uuid is not None:
        inputs["session_uuid"] = str(run.session_uuid)
    return RunSnapshot(
        workflow_id=run.id,
        workflow_type=run.type,
        state_name=state,
        is_terminal=state.is_terminal,
        state_data={**inputs, **data},
        created_at=run.created_at,
        updated_at=updated_at,
    )


def _may_see(asker: Asker, found: _Found) -> bool:
    match asker:
        case Organization():
            return True
        case SessionClaims():
            return found.session_uuid == asker.session_uuid


def _of_run(run: Run) -> _Found:
    steps = tuple(
        RunStep(state_name=step["state_name"], at=step["at"], data=step.get("data")) for step in run.history
    )
    return _Found(run.session_uuid, run_snapshot(run), RunHistory(workflow_id=run.id, history=steps))


def _of_load(receipt: Receipt) -> _Found:
    at = receipt.occurred_at
    snapshot = RunSnapshot(
        workflow_id=receipt.recall_id,
        workflow_type=WorkflowType.MEMORY_LOAD,
        state_name=State.COMPLETED,
        is_terminal=True,
        state_data=_load_data(receipt),
        created_at=at,
        updated_at=at,
    )
    return _Found(receipt.session_uuid, snapshot, _straight_to(State.COMPLETED, receipt.recall_id, at))


def _load_data(receipt: Receipt) -> dict[str, JsonValue]:
    """Inputs and outputs of a load; `memory` only as long as every text that was handed out is there."""
    data: dict[str, JsonValue] = {
        "organization_uuid": str(receipt.organization_uuid),
        "agent_config_uuid": str(receipt.agent_config_uuid),
        "session_uuid": str(receipt.session_uuid),
        "cue": receipt.cue,
        "strategy": receipt.strategy,
        "top_k": receipt.top_k,
        "count": len(receipt.entries),
        "pack_id": None if receipt.pack_id is None else str(receipt.pack_id),
        "recall_id": str(receipt.recall_id),
    }
    texts = [entry.text for entry in receipt.entries if entry.text is not None]
    if len(texts) == len(receipt.entries):
        data["memory"] = render(Strategy(receipt.strategy), texts)
    return data


def _straight_to(state: State, run_id: UUID, at: datetime) -> RunHistory:
    """The history of a run that was accepted, or answered, at one moment."""
    states = (State.INITIATED, State.RUN, state) if state.is_terminal else (state,)
    steps = tuple(RunStep(state_name=name, at=at) for name in states)
    return RunHistory(workflow_id=run_id, history=steps)
