"""Exporting an agent config's entries as a file, in order, however many there are.

The rule that must not break: a file that has its end is whole. What cannot be read to the end is cut off before it.
"""

from collections.abc import AsyncGenerator
from typing import Final
from uuid import UUID

from lorebus_contracts.events import Origin
from lorebus_contracts.memory_file import MEDIA_TYPE, EntryState, FileEnd, FileEntry, FileHeader
from lorebus_contracts.wire import WireModel
from lorebus_gateway.answers import Stream
from lorebus_gateway.known_scopes import require_agent_config
from lorebus_store import moving
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.locks import ConfigPair
from lorebus_store.moving import Bookmark, MovedEntry

ENTRIES_A_PAGE: Final = 200


class Exporting:
    """Writes files."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def export(self, organization_uuid: UUID, agent_config_uuid: UUID) -> Stream:
        """The file of an agent config.

        Raises:
            NotFoundError: the organization has no such config.
            TransientError: the database is away.
        """
        async with self._database.read(Tenants.of(organization_uuid)) as connection:
            await require_agent_config(connection, organization_uuid, agent_config_uuid)
        name = f'attachment; filename="memory-{agent_config_uuid}.jsonl"'
        chunks = self._chunks((organization_uuid, agent_config_uuid))
        return Stream(chunks, MEDIA_TYPE, headers=(("content-disposition", name),))

    async def _chunks(self, pair: ConfigPair) -> AsyncGenerator[bytes, None]:
        """Page after page, each read by itself: a slow client holds no connection to the database."""
        yield _line(FileHeader(format="lorebus.memory", version=1))
        count = 0
        after: Bookmark | None = None
        while page := await self._page(pair, after):
            yield b"".join(_line(_entry(entry)) for entry in page)
            count += len(page)
            after = moving.bookmark(page[-1])
        yield _line(FileEnd(end=True, entries=count))

    async def _page(self, pair: ConfigPair, after: Bookmark | None) -> tuple[MovedEntry, ...]:
        async with self._database.read(Tenants.of(pair[0])) as connection:
            return await moving.read_page(connection, pair, after, limit=ENTRIES_A_PAGE)


def _entry(entry: MovedEntry) -> FileEntry:
    # What the database holds has been checked when it was saved.
    told = {name: value for name, value in entry._asdict().items() if name != "id"}
    return FileEntry.model_construct(
        **told | {"state": EntryState(entry.state), "origin": Origin(entry.origin)}
    )


def _line(line: WireModel) -> bytes:
    return line.model_dump_json().encode() + b"\n"
