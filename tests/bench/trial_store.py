"""The bare trial's table and statements: what a save and a load cost at the least, on the same PostgreSQL.

Everything that Lorebus promises besides is left out: runs, counters, outbox, tenants, terms made on save.
"""

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import asyncpg
import numpy as np

SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS mem (
        id uuid NOT NULL DEFAULT uuidv7() PRIMARY KEY,
        config uuid NOT NULL,
        principal text,
        fingerprint bytea NOT NULL,
        text text NOT NULL,
        importance double precision NOT NULL,
        reinforced integer NOT NULL DEFAULT 0,
        created_at timestamptz NOT NULL DEFAULT now(),
        terms bytea,
        CONSTRAINT mem_identity UNIQUE NULLS NOT DISTINCT (config, principal, fingerprint)
    );
    CREATE INDEX IF NOT EXISTS mem_newest ON mem (config, principal, created_at DESC, id DESC);
    CREATE INDEX IF NOT EXISTS mem_important ON mem (config, principal, importance DESC, created_at DESC, id DESC);
    CREATE INDEX IF NOT EXISTS mem_of_config ON mem (config, importance, created_at, id);
"""
UPSERT: Final = """
    INSERT INTO mem AS m (config, principal, fingerprint, text, importance, reinforced)
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::text[], $5::double precision[], $6::integer[])
    ON CONFLICT ON CONSTRAINT mem_identity DO UPDATE SET
        importance = greatest(m.importance, excluded.importance), reinforced = m.reinforced + excluded.reinforced + 1
"""
# Own and shared entries are two index scans; one condition with OR would walk the whole config.
_OWN: Final = "config = $1 AND principal = $2"
_SHARED: Final = "config = $1 AND principal IS NULL"
NEWEST: Final = f"""
    (SELECT id, text, created_at FROM mem WHERE {_OWN} ORDER BY principal, created_at DESC, id DESC LIMIT 10)
    UNION ALL
    (SELECT id, text, created_at FROM mem WHERE {_SHARED} ORDER BY principal, created_at DESC, id DESC LIMIT 10)
    ORDER BY created_at DESC, id DESC LIMIT 10
"""  # noqa: S608 - Of constants.
_PACKED: Final = "id, importance, created_at, terms"


def _first(columns: str, order: str, rest: str = "") -> str:
    scans = " UNION ALL ".join(
        f"(SELECT {columns} FROM mem WHERE {scope} {rest} ORDER BY principal, {order} LIMIT 250)"  # noqa: S608
        for scope in (_OWN, _SHARED)
    )
    return f"SELECT * FROM ({scans}) AS both_scopes ORDER BY {order} LIMIT 250"  # noqa: S608 - Of constants.


PACK: Final = f"""
    WITH newest AS MATERIALIZED ({_first(_PACKED, "created_at DESC, id DESC")}),
    important AS MATERIALIZED ({
    _first(
        _PACKED,
        "importance DESC, created_at DESC, id DESC",
        "AND id NOT IN (SELECT id FROM newest)",
    )
})
    SELECT array_agg(id), array_agg(importance), array_agg(extract(epoch FROM now() - created_at)::float8),
        array_agg(octet_length(terms)), string_agg(terms, ''::bytea)
    FROM (SELECT {_PACKED} FROM newest UNION ALL SELECT {_PACKED} FROM important) AS candidates
"""  # noqa: S608 - Of constants.
TEXTS: Final = "SELECT id, text FROM mem WHERE id = ANY($1::uuid[])"
DELETE_STEP: Final = """
    DELETE FROM mem WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM mem WHERE config = $1 ORDER BY importance, created_at, id LIMIT $2))
"""
# Without numpy installed there are no types of its own.
Array: TypeAlias = Any
_TERM_BYTES: Final = 4
_MONTH_SECONDS: Final = 30 * 86_400.0
_TOP: Final = 10


def fingerprint(text: str) -> bytes:
    """Of the normal form, without the care that Lorebus takes with it."""
    return hashlib.sha256(" ".join(text.lower().split()).strip(" .;:,-").encode()).digest()


def packed(terms: Iterable[str]) -> bytes:
    """A hash of four bytes for each term, one after the other."""
    hashes: bytes = np.fromiter((zlib.crc32(term.encode()) for term in terms), dtype="<u4").tobytes()
    return hashes


async def pack(connection: asyncpg.Connection, scope: Sequence[object], cue: bytes) -> Sequence[str]:
    """The texts of the ten best of at most 500 candidates, best first; `cue` is packed terms."""
    ids, importances, ages, sizes, terms = await connection.fetchrow(PACK, *scope)
    if ids is None:
        return ()
    best = best_of(
        np.asarray(importances), np.asarray(ages), np.asarray(sizes), np.frombuffer(terms, "<u4"), cue
    )
    rows = dict(await connection.fetch(TEXTS, [ids[place] for place in best]))
    return [rows[ids[place]] for place in best if ids[place] in rows]


def best_of(importances: Array, ages: Array, sizes: Array, terms: Array, cue: bytes) -> Sequence[int]:
    """The places of the ten best, by overlap with the cue damped by length, importance and recency."""
    lengths: Array = sizes // _TERM_BYTES
    owners: Array = np.repeat(np.arange(len(lengths)), lengths)
    wanted: Array = np.unique(np.frombuffer(cue, "<u4"))
    found: Array = np.searchsorted(wanted, terms)
    found[found == len(wanted)] = 0
    hits = wanted[found] == terms
    counts: Array = np.zeros((len(wanted), len(lengths)))
    np.add.at(counts, (found[hits], owners[hits]), 1.0)
    weights: Array = np.log1p(len(lengths) / np.maximum((counts > 0).sum(axis=1), 1))
    damping = 1.2 * (0.25 + 0.75 * lengths / max(lengths.mean(), 1.0))
    raw = (weights[:, None] * counts / (counts + damping)).sum(axis=0)
    scores = 0.6 * raw / max(raw.max(), 1.0) + 0.25 * importances + 0.15 * 0.5 ** (ages / _MONTH_SECONDS)
    return [int(place) for place in np.argsort(-scores, kind="stable")[:_TOP]]
