"""What can go wrong with a command or with the local stack, in words for the person who started it.

Exit codes are the same for every command (docs/operations.md): 0 is good, 1 is something found wrong or refused, 2 is
a command line that cannot be read, 3 is something that cannot be reached.
"""

from typing import Final

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_ALREADY_RUNNING: Final = 3


class StackError(Exception):
    """A part of the local stack could not be started; the text says which and what to do."""


class AlreadyRunningError(StackError):
    """Another process keeps the stack of this folder; the text says where it is."""


class RefusedError(Exception):
    """A command will not or cannot do what it was asked; the text says why and what to do."""


class UnreachableError(Exception):
    """What a command has to ask does not answer; the text says what and where."""
