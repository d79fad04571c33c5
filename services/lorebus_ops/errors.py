"""What can go wrong, in words for the person at the shell."""

from typing import Final

EXIT_FAILED: Final = 1
EXIT_ALREADY_RUNNING: Final = 3


class UnknownKeyError(Exception):
    """The organization has no such open key."""


class StackError(Exception):
    """A part of the local stack could not be started; the text says which and what to do."""


class AlreadyRunningError(StackError):
    """Another process keeps the stack of this folder; the text says where it is."""
