"""What keeps a request from being answered as asked; `problems.py` says which status each one is."""


class RefusedError(Exception):
    """Base of everything that a client did or met; the answer depends on the kind alone."""


class NotAuthenticatedError(RefusedError):
    """There are no credentials, or none that we gave out, or they have expired."""


class ForbiddenError(RefusedError):
    """The credentials are good, but for something else."""


class NotFoundError(RefusedError):
    """There is no such thing within the organization; that somebody else has one is never told."""


class ConflictError(RefusedError):
    """What is there already says otherwise."""


class KeyReusedError(RefusedError):
    """The `Idempotency-Key` came before, with another body."""


class RequestInHandError(RefusedError):
    """The first request with this `Idempotency-Key` is not answered yet."""


class FileTooLargeError(RefusedError):
    """The file has more bytes than an import takes, announced or sent."""


class UnsupportedFileTypeError(RefusedError):
    """The body says that it is no JSON Lines, or that it is packed."""


class TooManyRequestsError(RefusedError):
    """The credentials have used up what they may ask for until `retry_after_seconds` from now."""

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__("too many requests")
        self.retry_after_seconds = retry_after_seconds


class BodyTooSlowError(RefusedError):
    """The body did not come in time."""


class BodyTooLargeError(RefusedError):
    """The body has more than 1 MiB, announced or sent."""


class UnsupportedMediaTypeError(RefusedError):
    """The body says that it is no JSON, or that it is packed."""
