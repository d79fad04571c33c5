"""API keys."""

from hashlib import sha256

import pytest

from lorebus_store import keys
from lorebus_store.errors import PermanentError
from tests.integration.store.builders import ORGANIZATION, OTHER_ORGANIZATION, StoreDatabase

HASH = sha256(b"lrb_one").digest()


async def test_a_key_is_found_by_its_hash_until_it_is_revoked(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        made = await keys.create_key(
            conn,
            organization_uuid=ORGANIZATION,
            name="ci",
            scopes=["write", "read"],
            key_hash=HASH,
            prefix="lrb_o",
        )
        assert (made.name, made.prefix, made.scopes) == ("ci", "lrb_o", frozenset({"read", "write"}))
        assert await keys.find_key(conn, HASH) == made
        assert await keys.find_key(conn, sha256(b"lrb_two").digest()) is None
        await keys.mark_used(conn, [(ORGANIZATION, made.id), (OTHER_ORGANIZATION, made.id)])
        used = await keys.find_key(conn, HASH)
        assert used is not None
        assert used.last_used_at is not None
        assert not await keys.revoke(conn, organization_uuid=OTHER_ORGANIZATION, key_id=made.id)
        assert await keys.revoke(conn, organization_uuid=ORGANIZATION, key_id=made.id)
        assert not await keys.revoke(conn, organization_uuid=ORGANIZATION, key_id=made.id)
        assert await keys.find_key(conn, HASH) is None
        (listed,) = await keys.list_keys(conn, ORGANIZATION)
        assert listed.revoked_at is not None
        assert await keys.list_keys(conn, OTHER_ORGANIZATION) == ()


async def test_the_same_key_is_never_two_organizations(database: StoreDatabase) -> None:
    async def make(key_hash: bytes) -> None:
        async with database.begin() as conn:
            await keys.create_key(
                conn, organization_uuid=OTHER_ORGANIZATION, name="", scopes=[], key_hash=key_hash, prefix=""
            )

    await make(HASH)
    with pytest.raises(PermanentError) as refused:
        await make(HASH)
    assert refused.value.constraint == "api_keys_key_hash_key"
    with pytest.raises(PermanentError) as refused:
        await make(b"a plain key")
    assert refused.value.constraint == "api_keys_key_hash_is_sha256"
