"""Moving the entries of an agent config: read in order, page by page, and added with all their counts.

The rule that must not break: what is added is as it was read, in the same order, and an entry whose text is there
already, or whose subject was erased, is not touched or added.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_domain import policy
from lorebus_domain.fingerprint import FINGERPRINT_VERSION
from lorebus_domain.labelling import Label
from lorebus_domain.terms import TERMS_VERSION
from lorebus_store.locks import ConfigPair
from lorebus_store.statements import Statement


class MovedEntry(NamedTuple):
    """An entry with all that moves with it; the counts of labels include those that came with an import."""

    id: UUID
    principal_ref: str | None
    text: str
    importance: float
    reinforcement_count: int
    echo_count: int
    access_count: int
    success_count: int
    failed_count: int
    state: str
    quarantine_reason: str | None
    origin: str
    session_uuid: UUID | None
    provenance: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime
    last_accessed_at: datetime | None


class Bookmark(NamedTuple):
    """How far an export has come; entries that are held back come first, then the shared pool, then each principal."""

    state: str
    principal_ref: str | None
    created_at: datetime
    id: UUID


class StagedEntry(NamedTuple):
    """An entry to be added; `provenance` is a JSON object as text, the hashes are those of its erasures."""

    id: UUID
    principal_ref: str | None
    fingerprint: bytes
    text: str
    importance: float
    terms: str
    term_hashes: bytes
    reinforcement_count: int
    echo_count: int
    access_count: int
    success_count: int
    failed_count: int
    state: str
    quarantine_reason: str | None
    origin: str
    session_uuid: UUID | None
    provenance: str | None
    created_at: datetime
    updated_at: datetime
    last_accessed_at: datetime | None
    principal_hash: bytes | None
    session_hash: bytes | None


class Added(NamedTuple):
    """What became of what was staged: the ids of what is new and counts as memory, and of what is new and held."""

    memory: tuple[UUID, ...]
    held: tuple[UUID, ...]
    erased: int


_COLUMNS: Final = """id, principal_ref, text, importance, reinforcement_count, echo_count, access_count,
    moved_success_count, moved_failed_count, state, quarantine_reason, origin, session_uuid, provenance, created_at,
    updated_at, last_accessed_at"""
_OF_CONFIG: Final = "organization_uuid = :organization_uuid AND agent_config_uuid = :agent_config_uuid"
_AFTER: Final = "(created_at, id) > (CAST(:created_at AS timestamptz), CAST(:id AS uuid))"


def _page(which: str, order: str) -> Statement:
    return Statement(
        f"SELECT {_COLUMNS} FROM lorebus.memories WHERE {_OF_CONFIG} AND {which} ORDER BY {order} LIMIT :limit"
    )


_HELD: Final = _page(
    """state = 'quarantined' AND (coalesce(principal_ref, ''), created_at, id)
        > (CAST(:principal_ref AS text), CAST(:created_at AS timestamptz), CAST(:id AS uuid))""",
    "coalesce(principal_ref, ''), created_at, id",
)
# To order by the principal as well changes nothing, and tells the planner that an index is in this order.
_POOL: Final = _page(
    f"state = 'active' AND principal_ref IS NULL AND {_AFTER}", "principal_ref DESC, created_at, id"
)
_REST_OF_PRINCIPAL: Final = _page(
    f"state = 'active' AND principal_ref = :principal_ref AND {_AFTER}", "principal_ref DESC, created_at, id"
)
_NEXT_PRINCIPALS: Final = _page(
    "state = 'active' AND principal_ref > :principal_ref", "principal_ref, created_at, id"
)
_LABELS: Final = Statement(
    f"""
    WITH told AS MATERIALIZED (
        SELECT e.memory_id, (
            SELECT CASE
                WHEN s.quality_score >= CAST(:success_min AS double precision) THEN '{Label.SUCCESS}'
                WHEN s.quality_score IS NOT NULL THEN '{Label.FAILED}'
                ELSE s.outcome
            END
            FROM lorebus.recalls r
            JOIN lorebus.sessions s ON s.organization_uuid = r.organization_uuid AND s.session_uuid = r.session_uuid
            WHERE r.organization_uuid = e.organization_uuid AND r.recall_id = e.recall_id
        ) AS label
        FROM lorebus.recall_entries e
        WHERE e.organization_uuid = :organization_uuid AND e.memory_id = ANY(CAST(:ids AS uuid[]))
    )
    SELECT memory_id, count(*) FILTER (WHERE label = '{Label.SUCCESS}'),
        count(*) FILTER (WHERE label = '{Label.FAILED}')
    FROM told GROUP BY memory_id
    """
)
# Gone with the transaction; in it an import of any length is put in order without being held in memory.
_STAGE: Final = Statement(
    """
    CREATE TEMPORARY TABLE lorebus_moved (
        id uuid, principal_ref text COLLATE "C", fingerprint bytea, text text, importance double precision, terms text,
        term_hashes bytea,
        reinforcement_count integer, echo_count integer, access_count bigint, success_count bigint, failed_count bigint,
        state text, quarantine_reason text, origin text, session_uuid uuid, provenance text, created_at timestamptz,
        updated_at timestamptz, last_accessed_at timestamptz, principal_hash bytea, session_hash bytea
    ) ON COMMIT DROP
    """
)
_ADD_STAGED: Final = Statement(
    """
    INSERT INTO pg_temp.lorebus_moved SELECT * FROM unnest(
        CAST(:id AS uuid[]), CAST(:principal_ref AS text[]), CAST(:fingerprint AS bytea[]), CAST(:text AS text[]),
        CAST(:importance AS double precision[]), CAST(:terms AS text[]), CAST(:term_hashes AS bytea[]),
        CAST(:reinforcement_count AS integer[]), CAST(:echo_count AS integer[]), CAST(:access_count AS bigint[]),
        CAST(:success_count AS bigint[]), CAST(:failed_count AS bigint[]), CAST(:state AS text[]),
        CAST(:quarantine_reason AS text[]), CAST(:origin AS text[]), CAST(:session_uuid AS uuid[]),
        CAST(:provenance AS text[]), CAST(:created_at AS timestamptz[]), CAST(:updated_at AS timestamptz[]),
        CAST(:last_accessed_at AS timestamptz[]), CAST(:principal_hash AS bytea[]), CAST(:session_hash AS bytea[])
    )
    """
)
_IS_ERASED: Final = """EXISTS (
    SELECT FROM lorebus.erasures e
    WHERE e.organization_uuid = :organization_uuid AND e.subject_hash IN (s.principal_hash, s.session_hash)
        AND (e.agent_config_uuid IS NULL OR e.agent_config_uuid = :agent_config_uuid)
        AND (e.subject_kind = 'session' OR s.created_at <= e.erased_at)
)"""
_COUNT_ERASED: Final = Statement(f"SELECT count(*) FROM pg_temp.lorebus_moved s WHERE {_IS_ERASED}")
_ADD: Final = Statement(
    f"""
    INSERT INTO lorebus.memories
        (organization_uuid, id, agent_config_uuid, principal_ref, fingerprint_version, fingerprint, text, importance,
        reinforcement_count, access_count, terms, term_hashes, terms_version, in_reach, origin, session_uuid,
        provenance, created_at, updated_at, last_accessed_at, state, quarantine_reason, echo_count, moved_success_count,
        moved_failed_count)
    SELECT :organization_uuid, s.id, :agent_config_uuid, s.principal_ref, CAST(:fingerprint_version AS smallint),
        s.fingerprint, s.text, s.importance, s.reinforcement_count, s.access_count, s.terms, s.term_hashes,
        CAST(:terms_version AS smallint),
        coalesce((SELECT c.memory_pack_reach = 'all' FROM lorebus.agent_configs c WHERE {_OF_CONFIG}), false),
        s.origin, s.session_uuid, CAST(s.provenance AS jsonb), s.created_at, s.updated_at, s.last_accessed_at, s.state,
        s.quarantine_reason, s.echo_count, s.success_count, s.failed_count
    FROM pg_temp.lorebus_moved s WHERE NOT {_IS_ERASED}
    ORDER BY s.principal_ref NULLS FIRST, s.fingerprint, s.id
    ON CONFLICT (organization_uuid, agent_config_uuid, principal_ref, fingerprint_version, fingerprint) DO NOTHING
    RETURNING id, state
    """
)
_BEGINNING: Final = {"principal_ref": "", "created_at": datetime(1, 1, 1, tzinfo=UTC), "id": UUID(int=0)}


async def read_page(
    conn: AsyncConnection, pair: ConfigPair, after: Bookmark | None, *, limit: int
) -> tuple[MovedEntry, ...]:
    """The next entries behind a bookmark, or the first ones; none when there are no more.

    Entries that are held back come first, then the shared pool, then one principal after the other in the order of
    their code points; each oldest first, by id among equals. An entry that is there all the while is read once.
    """
    rows = await _rows_after(conn, pair, after, limit)
    found = [MovedEntry._make(row) for row in rows]
    labels = await _labels(conn, pair[0], [entry.id for entry in found])
    return tuple(_with_labels(entry, *labels.get(entry.id, (0, 0))) for entry in found)


def bookmark(entry: MovedEntry) -> Bookmark:
    """The place behind this entry."""
    return Bookmark(entry.state, entry.principal_ref, entry.created_at, entry.id)


async def begin_import(conn: AsyncConnection) -> None:
    """Make room for what is staged, until the transaction ends."""
    await _STAGE.rows(conn)


async def stage(conn: AsyncConnection, entries: Sequence[StagedEntry]) -> None:
    """Put entries aside, to be added all at once; their ids ascend in the order in which they were exported."""
    columns = zip(*entries, strict=True)
    await _ADD_STAGED.run(conn, dict(zip(StagedEntry._fields, map(list, columns), strict=True)))


async def add_staged(conn: AsyncConnection, pair: ConfigPair) -> Added:
    """Add what was staged and is neither there nor erased.

    The caller holds `locks.share_configs`, and afterwards adds the new memory to the counters.
    """
    key: dict[str, object] = {"organization_uuid": pair[0], "agent_config_uuid": pair[1]}
    versions = {"fingerprint_version": FINGERPRINT_VERSION, "terms_version": TERMS_VERSION}
    erased = await _COUNT_ERASED.value(conn, key)
    rows = await _ADD.rows(conn, key | versions)
    return Added(
        memory=tuple(row[0] for row in rows if row[1] == "active"),
        held=tuple(row[0] for row in rows if row[1] != "active"),
        erased=erased,
    )


async def _rows_after(
    conn: AsyncConnection, pair: ConfigPair, after: Bookmark | None, limit: int
) -> list[Any]:
    asked = {"organization_uuid": pair[0], "agent_config_uuid": pair[1], "limit": limit} | _BEGINNING
    if after is None or after.state == "quarantined":
        rows = await _HELD.rows(conn, asked if after is None else asked | _values(after))
        if rows:
            return rows
        after = None
    if after is None or after.principal_ref is None:
        rows = await _POOL.rows(conn, asked if after is None else asked | _values(after))
        if rows:
            return rows
        return await _NEXT_PRINCIPALS.rows(conn, asked)
    place = asked | _values(after)
    rows = await _REST_OF_PRINCIPAL.rows(conn, place)
    if len(rows) < limit:
        rows += await _NEXT_PRINCIPALS.rows(conn, place | {"limit": limit - len(rows)})
    return rows


def _values(after: Bookmark) -> dict[str, object]:
    return {"principal_ref": after.principal_ref or "", "created_at": after.created_at, "id": after.id}


async def _labels(
    conn: AsyncConnection, organization_uuid: UUID, ids: Sequence[UUID]
) -> Mapping[UUID, tuple[int, int]]:
    """For each entry, how many of its recalls are labelled `success` and how many `failed`."""
    values = {
        "organization_uuid": organization_uuid,
        "ids": ids,
        "success_min": policy.RATING_SUCCESS_MIN,
    }
    return {row[0]: (row[1], row[2]) for row in await _LABELS.rows(conn, values)}


def _with_labels(entry: MovedEntry, success: int, failed: int) -> MovedEntry:
    return entry._replace(
        success_count=entry.success_count + success, failed_count=entry.failed_count + failed
    )
