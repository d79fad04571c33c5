"""What the tests of columns are made of."""

from base64 import b64encode
from struct import pack
from typing import Final
from uuid import UUID

FIRST: Final = UUID("00000000-0000-4000-8000-000000000001")
SECOND: Final = UUID("00000000-0000-4000-8000-000000000002")
ONE_ID: Final = b64encode(FIRST.bytes).decode()


def floats(*values: float) -> str:
    """A column of these numbers."""
    return b64encode(pack(f"<{len(values)}d", *values)).decode()
