"""Which lessons are held back until a person has read them.

The rule that must not break: a lesson that tries to steer the people or the system behind the agent never becomes
memory by itself. A trace is full of what strangers wrote, and what a model made of it is handed to agents as their own
experience. Where in doubt a lesson is held: it is not lost, somebody looks at it.

What is looked for is English: a lesson in another language is not known by its words (docs/architecture/distill.md).
"""

import re
import unicodedata
from enum import StrEnum
from typing import Final

from lorebus_domain.redaction import redact


class EntryState(StrEnum):
    """Whether an entry is memory, or held back."""

    ACTIVE = "active"
    QUARANTINED = "quarantined"


class QuarantineReason(StrEnum):
    """Why a lesson is held."""

    OPERATOR_INSTRUCTION = "operator_instruction"
    URL_CREDENTIALS = "url_credentials"


_URL_KINDS: Final = frozenset({"url_credentials", "url_signature", "slack_webhook"})
_PEOPLE: Final = (
    r"(?:operators?|administrators?|admins?|sysadmins?|developers?|maintainers?"
    r"|owners? of (?:this|the) (?:agent|system)|whoever (?:runs|operates|maintains|configures) \w+(?: \w+)?)"
)
_MUST: Final = (
    r"(?:must|should|shall|needs? to|ha(?:s|ve) to|please|(?:is|are) (?:required|asked|advised) to)"
)
_RULES: Final = (
    r"(?:(?:system |safety |security |content |usage |its |your |their |my |all |any |the |these |those |previous "
    r"|prior |earlier |above |preceding |existing |original |current |other )*)"
    r"(?:instructions?|rules?|guidelines?|guardrails?|polic(?:y|ies)|restrictions?|prompts?|safeguards?|constraints?)"
)
_CONTROLS: Final = (
    r"(?:safety|guardrails?|safeguards?|security|auditing|(?:audit|access|security) (?:logs?|logging|trail)|monitoring"
    r"|approvals?|approval steps?|authentication|authori[sz]ation(?: checks?)?|permission checks?|human review"
    r"|oversight|redaction|sandbox(?:ing)?|rate limits?|2fa|mfa|two-factor authentication|encryption|firewall"
    r"|content filters?)"
)
_THE: Final = r"(?:the |this |that |your |its |all |any |every )*"
_SHAPES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        # Spoken to: "Operator: ...", "Dear admin, ...", "Note to the developer".
        rf"^(?:dear |hey |hello |attention |note (?:to|for) (?:the |an? )?)*{_PEOPLE} ?[,:!]",
        rf"\b(?:dear|attention|note (?:to|for)(?: the| an?)?|message (?:to|for)(?: the| an?)?) {_PEOPLE}\b",
        # Told what to do, directly or through the agent.
        rf"\b{_THE}{_PEOPLE} {_MUST}\b",
        rf"\b(?:tell|instruct|urge|order|remind|convince|persuade|advise|warn|ask) {_THE}{_PEOPLE} (?:to|that|not)\b",
        # The agent's own standing: rights, settings, instructions.
        r"\b(?:grant|give|allow|assign|enable) (?:this|the|your|an?) (?:ai )?(?:agent|assistant|bot|model)s?\b",
        (
            r"\b(?:change|update|edit|replace|rewrite|extend|set|configure|reconfigure|retrain|redeploy|restart|upgrade)"
            r" (?:this|the|your) (?:ai )?(?:agent|assistant|bot|model)(?:'?s)?\b"
        ),
        r"\b(?:system|developer) (?:prompt|message|instructions?)\b",
        # What is to hold it back.
        rf"\b(?:ignore|disregard|forget|override|overrule|bypass|circumvent) {_RULES}\b",
        (
            rf"\b(?:disable|deactivate|bypass|circumvent|switch off|turn off|shut off|remove|suspend|weaken) {_THE}"
            rf"(?:\w+ )?{_CONTROLS}\b"
        ),
        rf"\b(?:switch|turn|shut) {_THE}(?:\w+ )?{_CONTROLS} off\b",
        (
            r"\b(?:you are now|from now on,? you|jailbr(?:ea|o)k|developer mode|dan mode|god mode"
            r"|do anything now|without (?:any )?(?:restrictions|guardrails|oversight))"
        ),
        (
            r"\b(?:do not|don't|never) (?:tell|inform|alert|notify|mention (?:this|it) to|report (?:this|it) to)\b"
            rf".{{0,40}}\b(?:{_PEOPLE}|humans?|supervisors?|anyone|anybody)\b"
        ),
        # Marks of a conversation, with which a text passes for somebody else's turn.
        r"<\|?(?:im_start|im_end|system|assistant|user|endoftext)\|?>|\[/?inst\]|<</?sys>>",
        r"^(?:#+ ?)?(?:system|assistant|developer)(?: prompt| message)? ?:",
    )
)
_INVISIBLE: Final = frozenset({"Cf", "Cc", "Mn"})


def quarantine_reason(text: str) -> QuarantineReason | None:
    """Why a distilled lesson is held back, or None when it may become memory.

    Held are a text that carries a URL with a login or a signature, and one that reads like an instruction to whoever
    operates the agent: that addresses them, asks for rights or settings, or wants rules and controls out of the way.
    Letters are compared without case, accents and invisible characters.
    """
    if _URL_KINDS & redact(text).counts.keys():
        return QuarantineReason.URL_CREDENTIALS
    plain = _plain(text)
    if any(shape.search(plain) for shape in _SHAPES):
        return QuarantineReason.OPERATOR_INSTRUCTION
    return None


def _plain(text: str) -> str:
    """The text as a reader takes it: compatibility forms folded, nothing invisible, single spaces, lower case."""
    folded = unicodedata.normalize("NFKD", text.replace("’", "'")).lower()
    spaced = ("" if unicodedata.category(c) in _INVISIBLE and c not in "\n\t\r" else c for c in folded)
    return " ".join("".join(spaced).split())
