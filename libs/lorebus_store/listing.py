"""Listing the entries of an agent config, as a person looks through them.

The rule that must not break: what is compared is compared by equality, and what is searched for is taken literally: a
`%` in a word is a `%`. A listing walks one scope's or one config's index from its top (SPEC.md section 8).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_domain.quarantine import EntryState
from lorebus_store.statements import Statement


class EntryDetails(NamedTuple):
    """An entry with all that is known of it."""

    id: UUID
    agent_config_uuid: UUID
    principal_ref: str | None
    text: str
    fingerprint: bytes
    importance: float
    reinforcement_count: int
    access_count: int
    origin: str
    session_uuid: UUID | None
    provenance: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime
    last_accessed_at: datetime | None
    state: str
    quarantine_reason: str | None
    echo_count: int


class Page(NamedTuple):
    """One page of a listing, and how many entries all pages hold together."""

    items: tuple[EntryDetails, ...]
    total: int


DETAILS: Final = ", ".join(EntryDetails._fields)
_ORDER: Final = "importance DESC, created_at DESC, id DESC"
_PAIR: Final = "organization_uuid = :organization_uuid AND agent_config_uuid = :agent_config_uuid"
_ABOVE: Final = "importance >= :min_importance"
# A condition that always holds; it names the index `memories_of_config`, which the listing of one scope must not.
_OF_CONFIG: Final = "importance >= 0"
_STATES: Final[Mapping[EntryState, str]] = {
    EntryState.ACTIVE: "state = 'active'",
    EntryState.QUARANTINED: "state = 'quarantined'",
}
_WHOSE: Final[Mapping[tuple[bool, bool | None], str]] = {
    (False, None): _OF_CONFIG,
    (False, False): f"{_OF_CONFIG} AND principal_ref IS NOT NULL",
    (False, True): "principal_ref IS NULL",
    (True, None): "principal_ref = :principal_ref",
}
"""By whether one principal's entries are asked for, and whether the shared pool's alone, or all but those."""

# In lower case by the same database as the texts, once a query. ILIKE would do it for each word of each row.
_PATTERNS: Final = """CAST((
    SELECT coalesce(array_agg(lower(pattern)), '{}') FROM unnest(CAST(:patterns AS text[])) AS pattern) AS text[])"""
_FILTERS: Final[Mapping[bool, str]] = {
    False: "",
    True: f"AND origin = coalesce(:origin, origin) AND lower(text) LIKE ALL ({_PATTERNS})",
}
"""By whether an origin or words are asked for, which only the rows themselves can tell."""


class _Listing(NamedTuple):
    page: Statement
    total: Statement


def _listing(state: str, whose: str, filters: str) -> _Listing:
    # Each scan is of one scope or one config: to order by the principal as well tells the planner so (`candidates`).
    order = _ORDER if whose.startswith(_OF_CONFIG) else f"principal_ref, {_ORDER}"
    rows = f"FROM lorebus.memories WHERE {_PAIR} AND {state} AND {whose} AND {_ABOVE} {filters}"
    return _Listing(
        Statement(f"SELECT {DETAILS} {rows} ORDER BY {order} OFFSET :skip LIMIT :per_page"),
        Statement(f"SELECT count(*) {rows}"),
    )


_LISTINGS: Final = {
    (state, whose, filtered): _listing(_STATES[state], _WHOSE[whose], _FILTERS[filtered])
    for state, whose, filtered in product(_STATES, _WHOSE, _FILTERS)
}
_ENTRY_COUNT: Final = Statement(
    """
    SELECT entry_count FROM lorebus.agent_configs
    WHERE organization_uuid = :organization_uuid AND agent_config_uuid = :agent_config_uuid
    """
)
_EVERYTHING: Final = _LISTINGS[EntryState.ACTIVE, (False, None), False]


async def list_page(
    conn: AsyncConnection,
    organization_uuid: UUID,
    agent_config_uuid: UUID,
    *,
    page: int,
    per_page: int,
    state: EntryState = EntryState.ACTIVE,
    min_importance: float | None = None,
    principal_ref: str | None = None,
    shared: bool | None = None,
    origin: str | None = None,
    words: Sequence[str] = (),
) -> Page:
    """A page of a config's entries, highest importance first, then newest, then id; `page` counts from 1.

    `principal_ref`: this principal's alone; `shared`: the shared pool's alone, or (False) all but those. Each of the
    `words` must occur in the text, in upper or lower case as the database knows it. `total` counts all that match.
    Source: SPEC.md section 8.
    """
    whose = (False, shared) if principal_ref is None else (True, None)
    listing = _LISTINGS[state, whose, bool(origin or words)]
    values: dict[str, object] = {
        "organization_uuid": organization_uuid,
        "agent_config_uuid": agent_config_uuid,
        "min_importance": min_importance or 0.0,
        "principal_ref": principal_ref,
        "origin": origin,
        "patterns": [f"%{_literal(word)}%" for word in words],
        "skip": (page - 1) * per_page,
        "per_page": per_page,
    }
    # Everything that a config holds is counted already.
    counting = _ENTRY_COUNT if listing is _EVERYTHING and not min_importance else listing.total
    total = await counting.value(conn, values) or 0
    past_the_end = total <= (page - 1) * per_page
    items = [] if past_the_end else await listing.page.rows(conn, values)
    return Page(tuple(map(EntryDetails._make, items)), total)


def _literal(word: str) -> str:
    """The word as a pattern that matches it alone."""
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
