"""A principal's name is what it is, code point by code point, wherever a client tells it."""

import unicodedata

import pytest

from tests.support.gateways import Asking

NFC = unicodedata.normalize("NFC", "José")
NFD = unicodedata.normalize("NFD", NFC)


@pytest.mark.parametrize(
    ("own", "named", "status"), [(NFC, NFC, 202), (NFD, NFD, 202), (NFC, NFD, 403), (NFD, NFC, 403)]
)
async def test_a_run_for_a_name_that_only_looks_like_the_sessions_is_refused(
    gateway: Asking, own: str, named: str, status: int
) -> None:
    config = await gateway.config()
    session = await gateway.session(config, {"kind": "end_user", "ref": own})

    answer = await gateway.start(
        "agents.memory-save",
        agent_config_uuid=str(config),
        session_uuid=str(session.uuid),
        principal_ref=named,
        entries=[{"text": "likes aisle seats"}],
    )

    assert answer.status_code == status


async def test_a_name_with_a_null_character_is_refused_and_not_shortened(gateway: Asking) -> None:
    config = await gateway.config()
    session = await gateway.session(config)

    answer = await gateway.start(
        "agents.memory-save",
        agent_config_uuid=str(config),
        session_uuid=str(session.uuid),
        principal_ref="ann\0",
        entries=[{"text": "likes aisle seats"}],
    )

    assert answer.status_code == 422
    assert answer.json()["faults"][0]["path"] == "initial_data.principal_ref"
