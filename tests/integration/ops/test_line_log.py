import io
from pathlib import Path

from lorebus_ops.line_log import LineLog, LineSplitter
from tests.support.processes import line_log, lines_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_that_comes_in_pieces_is_written_once(tmp_path: Path) -> None:
    with line_log(tmp_path) as log:
        splitter = LineSplitter(log, "save")
        for piece in (b"a", b"b\nc", b"d"):
            splitter.feed(piece)
        splitter.close()

        assert lines_of(log) == ["save     | ab", "save     | cd"]


def test_control_characters_of_a_program_do_not_reach_the_terminal(tmp_path: Path) -> None:
    with line_log(tmp_path) as log:
        LineSplitter(log, "save").feed(b"\x1b]0;title\x07\ttext \xff\r\n")

        assert lines_of(log) == [
            "save     | \N{REPLACEMENT CHARACTER}]0;title\N{REPLACEMENT CHARACTER}\ttext \ufffd"
        ]


def test_names_are_coloured_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    terminal, pipe = Terminal(), io.StringIO()

    for output in (terminal, pipe):
        log = LineLog(tmp_path / "lorebus.log", output)
        log.write("save", "hello")
        log.close()

    assert terminal.getvalue() == "\x1b[36msave     |\x1b[0m hello\n"
    assert pipe.getvalue() == "save     | hello\n"


class ClosedTerminal(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


def test_a_closed_terminal_does_not_stop_the_file(tmp_path: Path) -> None:
    log = LineLog(tmp_path / "lorebus.log", ClosedTerminal())

    log.say("one")
    log.say("two")
    log.close()

    assert lines_of(log) == ["lorebus  | one", "lorebus  | two"]
