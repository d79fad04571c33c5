"""Why a provider gave no lessons, named by what to do next.

The rule that must not break: a text says what happened in our own words. Nothing an endpoint sent is in it, because an
endpoint may repeat the prompt, and with it the customer's session.
"""

from enum import StrEnum

from lorebus_store.errors import PermanentError, TransientError


class FailureReason(StrEnum):
    """Why a distill failed, or waits for its next attempt, as a word that a program can test."""

    UNKNOWN_MODEL_PROFILE = "unknown_model_profile"
    UNREADABLE_ANSWER = "unreadable_answer"
    MODEL_DECLINED = "model_declined"
    REQUEST_REFUSED = "request_refused"
    RATE_LIMITED = "rate_limited"
    MODEL_AWAY = "model_away"
    MODEL_TIMEOUT = "model_timeout"
    OVER_BUDGET = "over_budget"
    TOO_MANY_ATTEMPTS = "too_many_attempts"
    UNREADABLE_EVENT = "unreadable_event"
    PROVIDER_FAILED = "provider_failed"


class ProviderRefusedError(PermanentError):
    """Asking again gives the same answer."""

    def __init__(self, reason: FailureReason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class ProviderAwayError(TransientError):
    """Worth another attempt; `retry_after_seconds` is when the endpoint wants to be asked again, if it said so."""

    def __init__(self, reason: FailureReason, text: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class NotAskedError(TransientError):
    """The model was not asked, so that no attempt was made; worth it again in `due_in_seconds`."""

    def __init__(self, reason: FailureReason, text: str, *, due_in_seconds: float) -> None:
        super().__init__(text)
        self.reason = reason
        self.due_in_seconds = due_in_seconds
