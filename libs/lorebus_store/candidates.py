"""What a load reads: the newest and the most important entries that a caller may see, and the candidates of a pack.

The rules that must not break: what a caller may see comes from its `Scope` and is compared by equality, and nobody sees
an entry that is held back; own and shared entries are two index scans joined by UNION ALL, because one condition
with OR walks a million rows (PERFORMANCE.md).
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_domain.ranking import Candidate
from lorebus_domain.visibility import ReadScope, Scope, read_scope
from lorebus_store.statements import Statement


class StoredEntry(NamedTuple):
    """An entry as a load needs it."""

    id: UUID
    text: str
    importance: float
    created_at: datetime


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
_ENTRY: Final = ", ".join(StoredEntry._fields)
_CANDIDATE: Final = "id, fingerprint, text_chars, importance, created_at, terms"
# Five hundred candidates as one row of arrays: the driver makes that in three quarters of the time.
_CANDIDATES: Final = ", ".join(f"array_agg({column})" for column in _CANDIDATE.split(", "))
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
    return Statement(_first(conditions, columns=_ENTRY, order=order, limit=_LIMIT))


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
    reached = _first(
        [f"{scope.in_terms_index} AND {scope.condition} AND {matching}" for scope in scopes],
        columns=f"{_CANDIDATE}, ts_rank(terms_vector, (SELECT query FROM wanted)) AS match",
        order=f"match DESC, {_IMPORTANT_FIRST}",
        limit=_REACH_LIMIT,
        table=_MEMORIES_BY_WORDS,
    )
    # A tsvector's own spelling quotes whatever a term may hold; terms have no spaces, so that those between two
    # terms, and only those, become OR.
    wanted = """SELECT CAST(replace(
        CAST(array_to_tsvector(CAST(:reach_terms AS text[])) AS text), ''' ''', ''' | ''') AS tsquery) AS query"""
    return f"""size AS MATERIALIZED (SELECT count(*) > {above} AS is_large FROM ({entries}) AS entries),
        wanted AS MATERIALIZED ({wanted}), reached AS MATERIALIZED ({reached})"""


def _candidates(scopes: Sequence[_Part], *, reach: bool) -> Statement:
    parts = ["newest", "important", *(["reached"] if reach else [])]
    rows = " UNION ALL ".join(f"SELECT {_CANDIDATE} FROM {part}" for part in parts)
    return Statement(
        f"{_pack(scopes)}{', ' + _reach(scopes) if reach else ''} SELECT {_CANDIDATES} FROM ({rows}) AS candidates"
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
# In this form no index takes the agent config, and the planner does not walk one of a whole config for a few ids.
_TEXTS: Final = {
    key: Statement(
        f"""
        SELECT id, text FROM lorebus.memories
        WHERE organization_uuid = :organization_uuid AND id = ANY(CAST(:ids AS uuid[])) AND state = 'active'
            AND agent_config_uuid IS NOT DISTINCT FROM CAST(:agent_config_uuid AS uuid)
            AND ({" OR ".join(part.condition for part in parts)})
        """
    )
    for key, parts in _SCOPES.items()
}


async def newest(conn: AsyncConnection, scope: Scope, limit: int) -> tuple[StoredEntry, ...]:
    """The newest entries that the caller may see, at most `limit`, newest first, then highest id.

    Source: SPEC.md section 5, `last_k` and `full`.
    """
    return await _entries(conn, _NEWEST, scope, limit)


async def most_important(conn: AsyncConnection, scope: Scope, limit: int) -> tuple[StoredEntry, ...]:
    """The most important entries that the caller may see, at most `limit`; equals newest first, then highest id.

    Source: SPEC.md section 5, `importance`.
    """
    return await _entries(conn, _MOST_IMPORTANT, scope, limit)


async def pack_candidates(
    conn: AsyncConnection,
    scope: Scope,
    *,
    newest_limit: int,
    important_limit: int,
    reach_terms: Sequence[str] | None = None,
    reach_limit: int = 0,
) -> tuple[Candidate, ...]:
    """The candidates of a pack, without their texts, each once and in no order that matters.

    The newest, the most important of the rest and, with `reach_terms` (distinct, without spaces) and where the
    caller sees more than those two limits together, the `reach_limit` best matches among what is left.
    Source: RELEVANCE.md, "Which candidates".
    """
    readable = read_scope(scope.caller)
    if readable is None:
        return ()
    key = _key(readable)
    values = _values(scope, readable) | {"newest_limit": newest_limit, "important_limit": important_limit}
    statement = _RECENT[key]
    if reach_terms:
        statement = _ALL[key]
        values |= {"reach_terms": list(reach_terms), "reach_limit": reach_limit}
    columns = await statement.row(conn, values)
    return () if columns[0] is None else tuple(map(Candidate, *columns))


async def texts_of(conn: AsyncConnection, scope: Scope, ids: Collection[UUID]) -> Mapping[UUID, str]:
    """The texts of these entries by id; one that is gone meanwhile, or that the caller may not see, is left out."""
    readable = read_scope(scope.caller)
    if readable is None:
        return {}
    rows = await _TEXTS[_key(readable)].rows(conn, _values(scope, readable) | {"ids": list(ids)})
    return {row[0]: row[1] for row in rows}


async def _entries(
    conn: AsyncConnection, statements: Mapping[tuple[bool, bool], Statement], scope: Scope, limit: int
) -> tuple[StoredEntry, ...]:
    readable = read_scope(scope.caller)
    if readable is None:
        return ()
    rows = await statements[_key(readable)].rows(conn, _values(scope, readable) | {"limit": limit})
    return tuple(map(StoredEntry._make, rows))


def _key(readable: ReadScope) -> tuple[bool, bool]:
    """Which statement reads it; one that saw nothing would be no caller's."""
    return (readable.principal_ref is not None, readable.shared)


def _values(scope: Scope, readable: ReadScope) -> dict[str, object]:
    values: dict[str, object] = {
        "organization_uuid": scope.organization_uuid,
        "agent_config_uuid": scope.agent_config_uuid,
    }
    return values if readable.principal_ref is None else values | {"principal_ref": readable.principal_ref}
