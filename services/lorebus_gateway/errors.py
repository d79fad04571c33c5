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


class BodyTooLargeError(RefusedError):
    """The body has more than 1 MiB, announced or sent."""


class UnsupportedMediaTypeError(RefusedError):
    """The body says that it is no JSON."""
