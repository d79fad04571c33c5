"""What can go wrong with the local stack, in words for the person who started it."""

from typing import Final

EXIT_FAILED: Final = 1
EXIT_ALREADY_RUNNING: Final = 3


class StackError(Exception):
    """A part of the local stack could not be started; the text says which and what to do."""


class AlreadyRunningError(StackError):
    """Another process keeps the stack of this folder; the text says where it is."""
