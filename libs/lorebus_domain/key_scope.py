"""What an API key may be used for.

The rule that must not break: no scope holds another. A key that may do all has all three.
"""

from enum import StrEnum


class KeyScope(StrEnum):
    """`read` memory and settings; `write` what sessions would write; `admin` what moves, loses or opens memory."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"
