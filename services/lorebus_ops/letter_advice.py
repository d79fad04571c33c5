"""What a dead letter's error means, and what a person does about it."""

from collections.abc import Mapping
from typing import Final

from lorebus_kit.letters import Letter, header_fault

_OF_REJECTIONS: Final[Mapping[str, str]] = {
    "unknown_organization": (
        "No organization has this UUID here. Where it should have: make it known with"
        " `lorebus keys create --organization {organization}`, and its agent config with that key: `PUT"
        " /api/app/agents/configs/{config}` with the body {{}}. Then replay. Where not: the sender names a wrong one;"
        " drop the letter."
    ),
    "session_mismatch": (
        "The session of this event is another agent config's, or was registered for another caller. The sender mixed"
        " two sessions up: mend it there, and drop the letter. A replay is rejected again."
    ),
}
_OF_ERRORS: Final[Mapping[str, str]] = {
    "PermanentError": (
        "PostgreSQL refused what the consumer asked, and would again. Look at the consumer's log of that time, and at"
        " `lorebus doctor`: tables that are behind the code are the usual cause. Mend that, then replay."
    ),
    "UndecodableHeaderError": "The sender writes a header that is not UTF-8 text. Mend it there.",
}
_UNREADABLE: Final = (
    "This code cannot read the record: {fault}. A replay would be set aside again. Where a newer version can read it,"
    " upgrade first; else mend the sender, who has to send the event again, and drop the letter."
)
_BAD_HEADER: Final = (
    "{fault}. A replay would be set aside again: mend the sender, who has to send the event again, and drop the"
    " letter."
)
_READABLE_NOW: Final = "This code can read the record, other than the one that set it aside: replay it."
_UNKNOWN: Final = (
    "The consumer failed with {error_type} three times: a fault of ours. Its log of that time has the traceback. Once"
    " that is mended, replay."
)


def advice_on(letter: Letter) -> str:
    """What the error means and what to do, in full sentences."""
    error_type = letter.told.get("error-type", "an unknown error")
    fault = header_fault(letter.headers)
    if letter.event is None:
        return _UNREADABLE.format(fault=letter.fault)
    if fault is not None:
        return _BAD_HEADER.format(fault=fault[:1].upper() + fault[1:])
    if error_type == "WireError":
        return _READABLE_NOW
    if error_type == "RejectedError":
        reason = letter.told.get("error-text", "")
        known = _OF_REJECTIONS.get(reason, "The event can never be handled as it is: {reason}.")
        config = letter.event.agent_config_uuid
        return known.format(organization=letter.organization_uuid, config=config, reason=reason)
    return _OF_ERRORS.get(error_type, _UNKNOWN).format(error_type=error_type)
