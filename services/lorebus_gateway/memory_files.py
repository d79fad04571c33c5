"""Reading a memory file line by line, and saying what is wrong with which line.

The rule that must not break: a file is sound from its header to its end before anything is made of it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO, Final

from lorebus_contracts import wire
from lorebus_contracts.memory_file import MAX_LINE_BYTES, FileEnd, FileEntry, FileHeader
from lorebus_contracts.wire import MAX_FAULTS, Fault, WireError

_HEADER_LINE: Final = 1


class _Checked:
    """What has been read of a file so far: its entries, and its faults as far as they are told."""

    def __init__(self) -> None:
        self.entries = 0
        self.faults: list[Fault] = []
        self.is_ended = False

    @property
    def is_hopeless(self) -> bool:
        """Whether no more faults would be told."""
        return len(self.faults) >= MAX_FAULTS

    def take(self, number: int, line: bytes) -> None:
        """Check one line; `number` counts from 1."""
        try:
            self._take(number, line)
        except WireError as error:
            self.faults += (_of_line(number, fault) for fault in error.faults)

    def close(self) -> None:
        """Check that the file is whole."""
        if not self.is_ended and not self.is_hopeless:
            self.faults.append(Fault("", "has no end: the last line should be an end, so it was cut short"))

    def _take(self, number: int, line: bytes) -> None:
        if self.is_ended:
            raise WireError(Fault("", "comes after the end"))
        if len(line) > MAX_LINE_BYTES:
            raise WireError(Fault("", f"is longer than {MAX_LINE_BYTES} bytes"))
        if number == _HEADER_LINE:
            wire.parse(FileHeader, line)
        else:
            self._take_entry_or_end(wire.load_json(line))

    def _take_entry_or_end(self, value: object) -> None:
        if not _is_end(value):
            self.entries += 1
            wire.validate(FileEntry, value)
            return
        self.is_ended = True
        if wire.validate(FileEnd, value).entries != self.entries:
            raise WireError(Fault("entries", f"should be {self.entries}, the number of entries before it"))


def check_file(file: BinaryIO) -> Iterator[int]:
    """Check a file from its beginning, giving after each line how many entries it had so far.

    Raises:
        WireError: it is no sound file; the faults name the lines, at most twenty of them.
    """
    file.seek(0)
    checked = _Checked()
    for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 2), b""), start=_HEADER_LINE):
        checked.take(number, line)
        yield checked.entries
        if checked.is_hopeless:
            break
    checked.close()
    if checked.faults:
        raise WireError(*checked.faults[:MAX_FAULTS])


def entries_of(file: BinaryIO) -> Iterator[FileEntry]:
    """The entries of a file that was checked."""
    file.seek(0)
    file.readline()
    for line in file:
        value = wire.load_json(line)
        if not _is_end(value):
            yield wire.validate(FileEntry, value)


def _is_end(value: object) -> bool:
    return isinstance(value, dict) and "end" in value


def _of_line(number: int, fault: Fault) -> Fault:
    return replace(fault, path=f"line {number}.{fault.path}" if fault.path else f"line {number}")
