"""Saves, recalls, labels and prunes in any order, driven through the handlers on a real PostgreSQL, against a dict.

The model knows of an agent config's memory only what SPEC.md says: for each principal its entries in the order in which
they came. Whatever the database keeps, hands out and counts has to be what the model has.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lorebus_contracts.events import CallerBody, EntryBody, Event, RecallRecorded, SaveRequested
from lorebus_domain.visibility import Caller
from lorebus_domain.visibility import Scope as VisibleScope
from lorebus_gateway.pack_columns import rank_columns
from lorebus_kit.subscription import Handler
from lorebus_kit.verdicts import Applied, Duplicate, Verdict
from lorebus_prune.handlers import on_prune_requested
from lorebus_recall_labeller.handlers import on_session_events
from lorebus_save.handlers import on_save_requested
from lorebus_store import candidates
from lorebus_store.acting import Tenants
from tests.support.databases import ArrangedDatabase
from tests.support.events import (
    NOBODY,
    UNIDENTIFIED,
    Scope,
    actor,
    end_user,
    new_scope,
    prune,
    recalled,
    save,
)
from tests.support.memory import counter_of, entries_of, find_run, known_scope

Answer = TypeVar("Answer")

CALLERS = (NOBODY, end_user("bob"), end_user("Bob"), actor("ann"), actor("bob"), UNIDENTIFIED)
TEXTS = (
    "Likes aisle seats.",
    "likes  AISLE seats",
    "Avoids Mondays",
    "avoids mondays -",
    "café",
    "...",
    "third",
)
NORMAL = {
    "Likes aisle seats.": "likes aisle seats",
    "likes  AISLE seats": "likes aisle seats",
    "Avoids Mondays": "avoids mondays",
    "avoids mondays -": "avoids mondays",
    "café": "café",
    "...": "",
    "third": "third",
}
FAR_MORE_THAN_THERE_ARE = 250

entries = st.lists(
    st.builds(
        EntryBody,
        text=st.sampled_from(TEXTS),
        importance=st.sampled_from([0.0, 0.09, 0.1, 0.5, 0.5, 0.9, 1.0]),
    ),
    min_size=1,
    max_size=5,
)
callers = st.sampled_from(CALLERS)


@dataclass(slots=True)
class Kept:
    """One entry as the model has it; `came` counts the entries of the config."""

    memory_id: UUID
    principal: str | None
    text: str
    importance: float
    came: int
    reinforced: int = 0
    accessed: int = 0


class MemoryMachine(RuleBasedStateMachine):
    """One agent config in the database, and the same in a dict by (principal, normal form)."""

    url: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.Runner()
        self._database = ArrangedDatabase(self.url, pool_size=2)
        self._scope: Scope = new_scope()
        self._tenants = Tenants.of(self._scope.organization_uuid)
        self._model: dict[tuple[str | None, str], Kept] = {}
        self._came = 0
        self._told: list[tuple[Handler, Event]] = []

    def teardown(self) -> None:
        self._wait(self._database.dispose())
        self._loop.close()

    def _wait(self, work: Awaitable[Answer]) -> Answer:
        async def done() -> Answer:
            return await work

        return self._loop.run(done())

    def _tell(self, handler: Handler, event: Event) -> Verdict:
        """Give the handler an event in a transaction of its own; its verdict."""

        async def told() -> Verdict:
            async with self._database.begin(self._tenants) as connection:
                (verdict,) = await handler(connection, [event])
            return verdict

        self._told.append((handler, event))
        return self._wait(told())

    @initialize()
    def known(self) -> None:
        self._wait(known_scope(self._database, scope=self._scope))

    @rule(caller=callers, asked=entries)
    def save(self, caller: CallerBody, asked: list[EntryBody]) -> None:
        event = save(self._scope, *asked, caller=caller)
        self._tell(on_save_requested, event)
        run = self._wait(find_run(self._database, self._scope, event.event_id))
        assert run is not None
        if caller is UNIDENTIFIED:
            assert run.state_data["skipped_reason"] == "unidentified_end_user"
            return
        outcomes = [
            self._save_in_model(event, one, run.state_data["results"][place])
            for place, one in enumerate(asked)
        ]
        for outcome in ("saved", "reinforced", "skipped"):
            assert run.state_data[outcome] == outcomes.count(outcome)

    def _save_in_model(self, event: SaveRequested, one: EntryBody, result: dict[str, Any]) -> str:
        if one.importance < 0.1 or not NORMAL[one.text]:
            return "skipped"
        key = (event.principal_ref, NORMAL[one.text])
        kept = self._model.get(key)
        if kept is None:
            self._came += 1
            memory_id = UUID(result["memory_id"])
            self._model[key] = Kept(memory_id, event.principal_ref, one.text, one.importance, self._came)
            return "saved"
        assert result["memory_id"] == str(kept.memory_id)
        kept.importance = max(kept.importance, one.importance)
        kept.reinforced += 1
        return "reinforced"

    @rule(max_entries=st.integers(0, 8))
    def prune(self, max_entries: int) -> None:
        in_order = sorted(self._model, key=lambda key: (self._model[key].importance, self._model[key].came))
        going = in_order[: max(0, len(in_order) - max_entries)]
        event = prune(self._scope, max_entries)
        assert self._tell(on_prune_requested, event) == Applied()
        for key in going:
            del self._model[key]
        run = self._wait(find_run(self._database, self._scope, event.event_id))
        assert run is not None
        assert (run.state_data["deleted"], run.state_data["remaining"]) == (len(going), len(self._model))

    @rule(caller=callers, top_k=st.integers(1, 6), strategy=st.sampled_from(["last_k", "importance", "pack"]))
    def recall(self, caller: CallerBody, top_k: int, strategy: str) -> None:
        visible = [kept for kept in self._model.values() if self._sees(caller, kept)]
        handed_out = self._wait(self._handed_out(caller.resolve(), strategy, top_k))
        if strategy == "pack":
            assert set(handed_out) <= {kept.memory_id for kept in visible}
            assert len(handed_out) == min(top_k, len({self._normal(kept) for kept in visible}))
        else:
            by_importance = strategy == "importance"
            newest = sorted(
                visible, key=lambda kept: (by_importance * kept.importance, kept.came), reverse=True
            )
            assert handed_out == [kept.memory_id for kept in newest[:top_k]]
        if caller is not UNIDENTIFIED:
            self._record(recalled(self._scope, handed_out, caller=caller))

    def _record(self, event: RecallRecorded) -> None:
        assert self._tell(on_session_events, event) == Applied()
        handed_out = {entry.memory_id for entry in event.entries}
        for kept in self._model.values():
            kept.accessed += kept.memory_id in handed_out

    def _sees(self, caller: CallerBody, kept: Kept) -> bool:
        """The table of SPEC.md section 6."""
        if caller.kind == "none":
            return kept.principal is None
        if caller.kind == "end_user":
            return caller.ref is not None and kept.principal == caller.ref
        return kept.principal in (None, caller.ref)

    def _normal(self, kept: Kept) -> str:
        return NORMAL[kept.text]

    async def _handed_out(self, caller: Caller, strategy: str, top_k: int) -> list[UUID]:
        scope = VisibleScope(*self._scope.pair, caller)
        async with self._database.read(self._tenants) as connection:
            if strategy == "pack":
                found = await candidates.pack_candidates(
                    connection,
                    scope,
                    newest_limit=FAR_MORE_THAN_THERE_ARE,
                    important_limit=FAR_MORE_THAN_THERE_ARE,
                )
                pack = rank_columns(
                    found, cue="seats on mondays", now=recalled(self._scope, []).occurred_at, top_k=top_k
                )
                return [entry.memory_id for entry in pack.entries]
            query = candidates.newest if strategy == "last_k" else candidates.most_important
            return [entry.id for entry in (await query(connection, scope, top_k)).entries]

    @precondition(lambda self: self._told)
    @rule(data=st.data())
    def deliver_again(self, data: st.DataObject) -> None:
        handler, event = data.draw(st.sampled_from(self._told))
        assert self._tell(handler, event) == Duplicate()

    @invariant()
    def the_database_has_what_the_model_has(self) -> None:
        rows = self._wait(entries_of(self._database, self._scope))
        assert {
            row.id: (row.principal_ref, row.text, row.importance, row.reinforcement_count, row.access_count)
            for row in rows
        } == {
            kept.memory_id: (kept.principal, kept.text, kept.importance, kept.reinforced, kept.accessed)
            for kept in self._model.values()
        }
        if self._told:
            assert self._wait(counter_of(self._database, self._scope)) == len(self._model)


def test_whatever_happens_the_memory_is_what_a_dict_would_be(database_url: str) -> None:
    class Machine(MemoryMachine):
        url = database_url

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=20,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
