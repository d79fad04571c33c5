"""Memory entries: what saves write, what a person looks at and deletes, what a prune takes away.

The rule that must not break: whoever changes entries holds the shared lock of their agent configs first
(`share_configs`), and locks rows in the order of their identity. So no two writers deadlock and every counter is exact.
What loads read is in `candidates`, what a person looks through in `listing`, pruning in `pruning`; all are named here
as well. What is held back, in `quarantine`, is an entry without being counted as one.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_domain.fingerprint import FINGERPRINT_VERSION
from lorebus_domain.saving import FoldedEntry
from lorebus_domain.terms import TERMS_VERSION, packed
from lorebus_domain.visibility import MemoryScope
from lorebus_store import accesses, candidates, listing, locks, pruning, recalls
from lorebus_store.locks import ConfigPair
from lorebus_store.statements import Statement

Access = accesses.Access
count_accesses = accesses.count
share_configs = locks.share_configs
lock_config = locks.lock_config
StoredEntry = candidates.StoredEntry
PackedCandidates = candidates.PackedCandidates
newest = candidates.newest
most_important = candidates.most_important
pack_candidates = candidates.pack_candidates
texts_of = candidates.texts_of
EntryDetails = listing.EntryDetails
Page = listing.Page
list_page = listing.list_page
prune_lowest = pruning.prune_lowest
would_prune = pruning.would_prune


class EntrySource(NamedTuple):
    """Where an entry came from; `provenance` is a JSON object as text.

    With a `quarantine_reason` an entry that is new is held back. `echoes` says how many of its saves were of a lesson
    that the session had recalled.
    """

    origin: str
    session_uuid: UUID | None = None
    provenance: str | None = None
    quarantine_reason: str | None = None
    echoes: int = 0


class Upserted(NamedTuple):
    """What became of one folded entry: a new row, or a row that was there and is reinforced.

    `quarantine_reason` is why the row is held back, None when it is not.
    """

    scope: MemoryScope
    fingerprint: bytes
    memory_id: UUID
    inserted: bool
    quarantine_reason: str | None = None

    @property
    def adds_memory(self) -> bool:
        """Whether the config holds one entry more by it, which its counter must know."""
        return self.inserted and self.quarantine_reason is None


class CounterState(NamedTuple):
    """How many entries an agent config holds now, and its cap."""

    pair: ConfigPair
    entry_count: int
    max_entries: int


class DeletedEntry(NamedTuple):
    """An entry that is gone."""

    id: UUID
    agent_config_uuid: UUID
    principal_ref: str | None


# The config's reach is read here and not by the caller, because a setting that is changed meanwhile must not leave
# entries behind (`reach`).
_UPSERT: Final = Statement(
    """
    INSERT INTO lorebus.memories AS m
        (organization_uuid, id, agent_config_uuid, principal_ref, fingerprint_version, fingerprint, text, importance,
        reinforcement_count, terms, term_hashes, terms_version, origin, session_uuid, provenance, in_reach, created_at,
        updated_at, state, quarantine_reason, echo_count)
    SELECT e.organization_uuid, e.id, e.agent_config_uuid, e.principal_ref, CAST(:fingerprint_version AS smallint),
        e.fingerprint, e.text, e.importance, e.occurrences - 1, e.terms, e.term_hashes,
        CAST(:terms_version AS smallint), e.origin, e.session_uuid, CAST(e.provenance AS jsonb),
        coalesce((
            SELECT c.memory_pack_reach = 'all' FROM lorebus.agent_configs c
            WHERE c.organization_uuid = e.organization_uuid AND c.agent_config_uuid = e.agent_config_uuid
        ), false),
        coalesce(CAST(:at AS timestamptz), now()), coalesce(CAST(:at AS timestamptz), now()),
        CASE WHEN e.quarantine_reason IS NULL THEN 'active' ELSE 'quarantined' END, e.quarantine_reason, e.echoes
    FROM unnest(
        CAST(:organizations AS uuid[]), CAST(:ids AS uuid[]), CAST(:configs AS uuid[]), CAST(:principals AS text[]),
        CAST(:fingerprints AS bytea[]), CAST(:texts AS text[]), CAST(:importances AS double precision[]),
        CAST(:occurrences AS integer[]), CAST(:terms AS text[]), CAST(:term_hashes AS bytea[]),
        CAST(:origins AS text[]), CAST(:sessions AS uuid[]), CAST(:provenances AS text[]),
        CAST(:quarantine_reasons AS text[]), CAST(:echoes AS integer[])
    ) AS e (organization_uuid, id, agent_config_uuid, principal_ref, fingerprint, text, importance, occurrences,
        terms, term_hashes, origin, session_uuid, provenance, quarantine_reason, echoes)
    ON CONFLICT (organization_uuid, agent_config_uuid, principal_ref, fingerprint_version, fingerprint)
    DO UPDATE SET
        importance = greatest(m.importance, excluded.importance),
        reinforcement_count = m.reinforcement_count + excluded.reinforcement_count + 1,
        echo_count = m.echo_count + excluded.echo_count,
        updated_at = excluded.updated_at
    RETURNING fingerprint, id, (xmax = 0), CASE WHEN state = 'quarantined' THEN quarantine_reason END
    """
)
_ADD_TO_COUNTERS: Final = Statement(
    """
    WITH asked AS (
        SELECT * FROM unnest(CAST(:organizations AS uuid[]), CAST(:configs AS uuid[]), CAST(:deltas AS bigint[]))
            AS asked (organization_uuid, agent_config_uuid, delta)
    ), locked AS MATERIALIZED (
        SELECT organization_uuid, agent_config_uuid, asked.delta
        FROM lorebus.agent_configs c JOIN asked USING (organization_uuid, agent_config_uuid)
        ORDER BY organization_uuid, agent_config_uuid FOR NO KEY UPDATE OF c
    )
    UPDATE lorebus.agent_configs c SET entry_count = c.entry_count + locked.delta FROM locked
    WHERE c.organization_uuid = locked.organization_uuid AND c.agent_config_uuid = locked.agent_config_uuid
    RETURNING c.organization_uuid, c.agent_config_uuid, c.entry_count, c.memory_max_entries
    """
)
_GET: Final = Statement(
    f"SELECT {listing.DETAILS} FROM lorebus.memories WHERE organization_uuid = :organization_uuid AND id = :id"
)
_CONFIG_OF: Final = Statement(
    "SELECT agent_config_uuid FROM lorebus.memories WHERE organization_uuid = :organization_uuid AND id = :id"
)
_DELETE: Final = Statement(
    """
    WITH gone AS (
        DELETE FROM lorebus.memories WHERE organization_uuid = :organization_uuid AND id = :id
        RETURNING id, agent_config_uuid, principal_ref, state
    ), evidence AS (
        DELETE FROM lorebus.memory_evidence WHERE organization_uuid = :organization_uuid AND memory_id = :id
    ), counted AS (
        UPDATE lorebus.agent_configs c SET entry_count = c.entry_count - 1 FROM gone
        WHERE c.organization_uuid = :organization_uuid AND c.agent_config_uuid = gone.agent_config_uuid
            AND gone.state = 'active'
    )
    SELECT id, agent_config_uuid, principal_ref FROM gone
    """
)


async def upsert_reinforcing(
    conn: AsyncConnection,
    entries: Sequence[FoldedEntry],
    *,
    ids: Sequence[UUID],
    sources: Sequence[EntrySource],
    at: datetime | None = None,
) -> tuple[Upserted, ...]:
    """Save entries that are folded and sorted (`lorebus_domain.saving.fold`), one result for each.

    An entry that is there keeps its text, gets the higher importance and one reinforcement for each occurrence; a
    new one gets its id of `ids` and one reinforcement less. Entries of one call share `created_at` (`at`, or the
    transaction's time), so their ids decide which of them is newer. What is held back stays so when it is saved
    again. The caller holds `share_configs` and afterwards adds what `adds_memory` to the counters.
    Source: SPEC.md section 3, step 5.
    """
    if not entries:
        return ()
    values = {
        "fingerprint_version": FINGERPRINT_VERSION,
        "terms_version": TERMS_VERSION,
        "at": at,
        "organizations": [entry.scope.organization_uuid for entry in entries],
        "ids": ids,
        "configs": [entry.scope.agent_config_uuid for entry in entries],
        "principals": [entry.scope.principal_ref for entry in entries],
        "fingerprints": [entry.fingerprint for entry in entries],
        "texts": [entry.text for entry in entries],
        "importances": [entry.importance for entry in entries],
        "occurrences": [entry.occurrences for entry in entries],
        "terms": [" ".join(entry.terms) for entry in entries],
        "term_hashes": [packed(entry.terms) for entry in entries],
        "origins": [source.origin for source in sources],
        "sessions": [source.session_uuid for source in sources],
        "provenances": [source.provenance for source in sources],
        "quarantine_reasons": [source.quarantine_reason for source in sources],
        "echoes": [source.echoes for source in sources],
    }
    rows = await _UPSERT.rows(conn, values)
    if [row[0] for row in rows] != values["fingerprints"]:
        raise AssertionError("an upsert gives its rows back in the order in which they were given")
    return tuple(
        Upserted(entry.scope, fingerprint, memory_id, inserted, held_for)
        for entry, (fingerprint, memory_id, inserted, held_for) in zip(entries, rows, strict=True)
    )


async def add_to_counters(
    conn: AsyncConnection, deltas: Mapping[ConfigPair, int]
) -> tuple[CounterState, ...]:
    """Add to the entry counters; where each then stands beside its cap, for those that changed.

    The last thing a transaction does: the counter's row is what all saves of a config meet on.
    """
    changed = sorted((pair, delta) for pair, delta in deltas.items() if delta)
    if not changed:
        return ()
    values = {
        "organizations": [pair[0] for pair, _ in changed],
        "configs": [pair[1] for pair, _ in changed],
        "deltas": [delta for _, delta in changed],
    }
    rows = await _ADD_TO_COUNTERS.rows(conn, values)
    return tuple(CounterState((row[0], row[1]), row[2], row[3]) for row in rows)


async def get_entry(conn: AsyncConnection, organization_uuid: UUID, entry_id: UUID) -> EntryDetails | None:
    """The entry; None when the organization has no such entry."""
    row = await _GET.row(conn, {"organization_uuid": organization_uuid, "id": entry_id})
    return None if row is None else EntryDetails(*row)


async def delete_entry(conn: AsyncConnection, organization_uuid: UUID, entry_id: UUID) -> DeletedEntry | None:
    """Delete an entry, held or not, and count it off; None when the organization has no such entry."""
    key = {"organization_uuid": organization_uuid, "id": entry_id}
    config = await _CONFIG_OF.value(conn, key)
    if config is None:
        return None
    await lock_config(conn, (organization_uuid, config))
    row = await _DELETE.row(conn, key)
    await recalls.forget_entries(conn, organization_uuid, [entry_id])
    return None if row is None else DeletedEntry(*row)
