"""What a load reads: the newest and the most important entries that a caller may see, and the candidates of a pack.

The rules that must not break: what a caller may see comes from its `Scope` and is compared by equality, and nobody sees
an entry that is held back; own and shared entries are two index scans joined by UNION ALL, because one condition
with OR walks a million rows (PERFORMANCE.md). Each statement says by itself whom it acts for (`acting.GATE`), so that
it is one round trip, and tells what the session is about along with the entries.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_domain.visibility import ReadScope, Scope, read_scope
from lorebus_store.acting import GATE, Tenants, named
from lorebus_store.statements import Statement


class StoredEntry(NamedTuple):
    """An entry as a load needs it."""

    id: UUID
    text: str
    importance: float


class ReadEntries(NamedTuple):
    """What a load in order reads; `task` is None where the session is not known, '' where it was told no task."""

    task: str | None
    entries: tuple[StoredEntry, ...]


class PackedCandidates(NamedTuple):
    """The candidates of a pack, each once and in no order that matters: one row, a column of bytes for each field.

    `task` is None where the session is not known, '' where it was told no task. `ids` are 16 bytes a candidate,
    `fingerprints` 32; `importances` are floats of 8, `created_at` whole microseconds of 8 since 2000 in UTC,
    `text_chars` and `term_counts` whole numbers of 4, all highest byte first. `term_hashes` are
    `lorebus_domain.terms.packed` of each, one after the other.
    """

    task: str | None
    ids: bytes = b""
    fingerprints: bytes = b""
    importances: bytes = b""
    created_at: bytes = b""
    text_chars: bytes = b""
    term_counts: bytes = b""
    term_hashes: bytes = b""


class _Part(NamedTuple):
    """The condition on a scope's rows, and the same again as the full-text index has it."""

    condition: str
    in_terms_index: str


_OWN: Final = _Part("principal_ref = :principal_ref", "coalesce(principal_ref, '') = :principal_ref")
_SHARED: Final = _Part("principal_ref IS NULL", "coalesce(principal_ref, '') = ''")
_MEMORIES: Final = "lorebus.memories"
# Below row-level security no index serves a search by words: this view has the same wall, and no text
# (docs/decisions/row-level-security.md).
_MEMORIES_BY_WORDS: Final = "lorebus.memories_in_reach"

_NEWEST_FIRST: Final = "created_at DESC, id DESC"
_IMPORTANT_FIRST: Final = "importance DESC, created_at DESC, id DESC"
_ENTRY: Final = "id, text, importance, created_at"
HASHES: Final = """coalesce(term_hashes, (
    SELECT coalesce(string_agg(substr(sha256(convert_to(term, 'UTF8')), 1, 8), '' ORDER BY place), '')
    FROM unnest(string_to_array(terms, ' ')) WITH ORDINALITY AS stored (term, place)
))"""
"""An entry's hashes; where the release before saved it without, they are what `lorebus_domain.terms.packed` gives."""
_CANDIDATE: Final = f"id, fingerprint, text_chars, importance, created_at, {HASHES} AS hashes"
_CANDIDATE_COLUMNS: Final = "id, fingerprint, text_chars, importance, created_at, hashes"
# One row for all: the driver makes no object of any column of any candidate.
_PACKED: Final = """string_agg(uuid_send(id), ''), string_agg(fingerprint, ''), string_agg(float8send(importance), ''),
    string_agg(timestamptz_send(created_at), ''), string_agg(int4send(text_chars), ''),
    string_agg(int4send(octet_length(hashes) / 8), ''), string_agg(hashes, '')"""
_ASKING: Final = f"""
    {GATE} AS acting CROSS JOIN LATERAL (
        SELECT (
            SELECT coalesce(s.task, '') FROM lorebus.sessions s
            WHERE s.organization_uuid = :organization_uuid AND s.session_uuid = CAST(:session_uuid AS uuid)
                AND s.agent_config_uuid = :agent_config_uuid
        ) AS task
        WHERE acting.organizations IS NOT NULL
    ) AS session"""
_LIMIT: Final = "CAST(:limit AS bigint)"
_NEWEST_LIMIT: Final = "CAST(:newest_limit AS bigint)"
_IMPORTANT_LIMIT: Final = "CAST(:important_limit AS bigint)"
_REACH_LIMIT: Final = "CAST(:reach_limit AS bigint)"


def _first(conditions: Sequence[str], *, columns: str, order: str, limit: str, table: str = _MEMORIES) -> str:
    """The first `limit` rows by `order` that meet any of the conditions: an ordered, limited scan for each.

    Each scan is of one scope, so that to order by the principal as well changes nothing; the planner, who takes
    `IS NULL` for no equality, sees by it that the index has the order already.
    """
    scans = [
        f"""(SELECT {columns} FROM {table}
            WHERE organization_uuid = :organization_uuid AND agent_config_uuid = :agent_config_uuid
                AND state = 'active' AND {condition}
            ORDER BY principal_ref, {order} LIMIT {limit})"""
        for condition in conditions
    ]
    return f"{' UNION ALL '.join(scans)} ORDER BY {order} LIMIT {limit}" if len(scans) > 1 else scans[0]


def _read(order: str, scopes: Sequence[_Part]) -> Statement:
    conditions = [scope.condition for scope in scopes]
    entries = _first(conditions, columns=_ENTRY, order=order, limit=_LIMIT)
    return Statement(
        f"""
        SELECT session.task, found.* FROM {_ASKING} CROSS JOIN LATERAL (
            SELECT array_agg(id), array_agg(text), array_agg(importance) FROM ({entries}) AS entries
            WHERE acting.organizations IS NOT NULL
        ) AS found
        """
    )


def _pack(scopes: Sequence[_Part]) -> str:
    """The newest, and the most important of the rest, as two named parts of a query."""
    conditions = [scope.condition for scope in scopes]
    of_the_rest = [f"{condition} AND id NOT IN (SELECT id FROM newest)" for condition in conditions]
    newest = _first(conditions, columns=_CANDIDATE, order=_NEWEST_FIRST, limit=_NEWEST_LIMIT)
    important = _first(of_the_rest, columns=_CANDIDATE, order=_IMPORTANT_FIRST, limit=_IMPORTANT_LIMIT)
    return f"WITH newest AS MATERIALIZED ({newest}), important AS MATERIALIZED ({important})"


def _reach(scopes: Sequence[_Part]) -> str:
    """The best matches of what is left, by full text; none where the first two parts reached all there is."""
    above = f"{_NEWEST_LIMIT} + {_IMPORTANT_LIMIT}"
    entries = _first(
        [scope.condition for scope in scopes],
        columns="created_at, id",
        order=_NEWEST_FIRST,
        limit=f"{above} + 1",
    )
    matching = """terms_vector @@ (SELECT query FROM wanted) AND in_reach AND (SELECT is_large FROM size)
        AND id NOT IN (SELECT id FROM newest UNION ALL SELECT id FROM important)"""
    best = _first(
        [f"{scope.in_terms_index} AND {scope.condition} AND {matching}" for scope in scopes],
        columns="id, importance, created_at, ts_rank(terms_vector, (SELECT query FROM wanted)) AS match",
        order=f"match DESC, {_IMPORTANT_FIRST}",
        limit=_REACH_LIMIT,
        table=_MEMORIES_BY_WORDS,
    )
    reached = _of_ids(scopes, columns=_CANDIDATE, ids=f"ARRAY(SELECT id FROM ({best}) AS best)")
    # A tsvector's own spelling quotes whatever a term may hold; terms have no spaces, so that those between two
    # terms, and only those, become OR.
    wanted = """SELECT CAST(replace(
        CAST(array_to_tsvector(CAST(:reach_terms AS text[])) AS text), ''' ''', ''' | ''') AS tsquery) AS query"""
    return f"""size AS MATERIALIZED (SELECT count(*) > {above} AS is_large FROM ({entries}) AS entries),
        wanted AS MATERIALIZED ({wanted}), reached AS MATERIALIZED ({reached})"""


def _candidates(scopes: Sequence[_Part], *, reach: bool) -> Statement:
    parts = ["newest", "important", *(["reached"] if reach else [])]
    rows = " UNION ALL ".join(f"SELECT {_CANDIDATE_COLUMNS} FROM {part}" for part in parts)
    return Statement(
        f"""
        SELECT session.task, found.* FROM {_ASKING} CROSS JOIN LATERAL (
            {_pack(scopes)}{", " + _reach(scopes) if reach else ""}
            SELECT {_PACKED} FROM ({rows}) AS candidates WHERE acting.organizations IS NOT NULL
        ) AS found
        """
    )


def _of_ids(scopes: Sequence[_Part], *, columns: str, ids: str) -> str:
    """Those of these entries that the caller may see."""
    # In this form no index takes the agent config, and the planner does not walk one of a whole config for a few ids.
    return f"""
        SELECT {columns} FROM {_MEMORIES}
        WHERE organization_uuid = :organization_uuid AND id = ANY({ids}) AND state = 'active'
            AND agent_config_uuid IS NOT DISTINCT FROM CAST(:agent_config_uuid AS uuid)
            AND ({" OR ".join(scope.condition for scope in scopes)})"""


def _texts(scopes: Sequence[_Part]) -> Statement:
    texts = _of_ids(scopes, columns="id, text", ids="CAST(:ids AS uuid[])")
    return Statement(
        f"""
        SELECT found.* FROM {GATE} AS acting CROSS JOIN LATERAL (
            SELECT id, text FROM ({texts}) AS texts WHERE acting.organizations IS NOT NULL
        ) AS found
        """
    )


_SCOPES: Final[Mapping[tuple[bool, bool], Sequence[_Part]]] = {
    (True, True): (_OWN, _SHARED),
    (True, False): (_OWN,),
    (False, True): (_SHARED,),
}
"""By whether the caller has a principal, and whether it sees the shared pool."""

_NEWEST: Final = {key: _read(_NEWEST_FIRST, scopes) for key, scopes in _SCOPES.items()}
_MOST_IMPORTANT: Final = {key: _read(_IMPORTANT_FIRST, scopes) for key, scopes in _SCOPES.items()}
_RECENT: Final = {key: _candidates(scopes, reach=False) for key, scopes in _SCOPES.items()}
_ALL: Final = {key: _candidates(scopes, reach=True) for key, scopes in _SCOPES.items()}
_TEXTS: Final = {key: _texts(scopes) for key, scopes in _SCOPES.items()}


async def newest(
    conn: AsyncConnection, scope: Scope, limit: int, *, session_uuid: UUID | None = None
) -> ReadEntries:
    """The newest entries that the caller may see, at most `limit`, newest first, then highest id.

    Source: SPEC.md section 5, `last_k` and `full`.
    """
    return await _entries(conn, _NEWEST, scope, limit, session_uuid)


async def most_important(
    conn: AsyncConnection, scope: Scope, limit: int, *, session_uuid: UUID | None = None
) -> ReadEntries:
    """The most important entries that the caller may see, at most `limit`; equals newest first, then highest id.

    Source: SPEC.md section 5, `importance`.
    """
    return await _entries(conn, _MOST_IMPORTANT, scope, limit, session_uuid)


async def pack_candidates(
    conn: AsyncConnection,
    scope: Scope,
    *,
    newest_limit: int,
    important_limit: int,
    reach_terms: Sequence[str] | None = None,
    reach_limit: int = 0,
    session_uuid: UUID | None = None,
) -> PackedCandidates:
    """The candidates of a pack, without their texts.

    The newest, the most important of the rest and, with `reach_terms` (distinct, without spaces) and where the
    caller sees more than those two limits together, the `reach_limit` best matches among what is left.
    Source: RELEVANCE.md, "Which candidates".
    """
    readable = read_scope(scope.caller)
    if readable is None:
        return PackedCandidates(None)
    key = _key(readable)
    values = _values(scope, readable) | {
        "session_uuid": session_uuid,
        "newest_limit": newest_limit,
        "important_limit": important_limit,
    }
    statement = _RECENT[key]
    if reach_terms:
        statement = _ALL[key]
        values |= {"reach_terms": list(reach_terms), "reach_limit": reach_limit}
    task, *columns = await statement.row(conn, values)
    return PackedCandidates(task) if columns[0] is None else PackedCandidates(task, *columns)


async def texts_of(conn: AsyncConnection, scope: Scope, ids: Collection[UUID]) -> Mapping[UUID, str]:
    """The texts of these entries by id; one that is gone meanwhile, or that the caller may not see, is left out."""
    readable = read_scope(scope.caller)
    if readable is None:
        return {}
    rows = await _TEXTS[_key(readable)].rows(conn, _values(scope, readable) | {"ids": list(ids)})
    return {row[0]: row[1] for row in rows}


async def _entries(
    conn: AsyncConnection,
    statements: Mapping[tuple[bool, bool], Statement],
    scope: Scope,
    limit: int,
    session_uuid: UUID | None,
) -> ReadEntries:
    readable = read_scope(scope.caller)
    if readable is None:
        return ReadEntries(None, ())
    values = _values(scope, readable) | {"limit": limit, "session_uuid": session_uuid}
    task, *columns = await statements[_key(readable)].row(conn, values)
    return ReadEntries(task, () if columns[0] is None else tuple(map(StoredEntry, *columns)))


def _key(readable: ReadScope) -> tuple[bool, bool]:
    """Which statement reads it; one that saw nothing would be no caller's."""
    return (readable.principal_ref is not None, readable.shared)


def _values(scope: Scope, readable: ReadScope) -> dict[str, object]:
    values: dict[str, object] = {
        "acts_for": named(Tenants.of(scope.organization_uuid)),
        "organization_uuid": scope.organization_uuid,
        "agent_config_uuid": scope.agent_config_uuid,
    }
    return values if readable.principal_ref is None else values | {"principal_ref": readable.principal_ref}
