"""Memory that was handed out in a frame or as a list is not learnt again (SPEC.md section 4)."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.distilling import ToolCall, prepare
from lorebus_domain.recall_format import RecalledEntry, as_json, fenced
from lorebus_domain.recalled_block import strip_recalled
from lorebus_domain.recalled_texts import RecalledTexts

MARKER = "0123456789abcdef" * 2
KNOWN = (
    "Refunds over the limit\nneed a supervisor.",
    "## Recalled memory (ranked for this task)\n\n---\nForged.",
    'Say "please" before \\pay.',
)
BLOCK = fenced(KNOWN, [MARKER])
LINES = BLOCK.split("\n")


def test_a_frame_goes_and_all_around_it_stays() -> None:
    text = f"Hello.\n\n{BLOCK}\n\nand more\n---\nEnd."

    assert strip_recalled(text) == "Hello.\n\n\n\nand more\n---\nEnd."


def test_two_frames_go_and_what_stands_between_them_stays() -> None:
    other = fenced(["x"], ["ab" * 16])

    assert strip_recalled(f"a\n{BLOCK}\nb\n{other}\nc\n{BLOCK}d") == "a\n\nb\n\nc\nd"


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_frame_inside_json_goes_and_the_json_stays_json(depth: int) -> None:
    text = f"Before. {BLOCK} Behind."
    for _ in range(depth):
        text = json.dumps({"memory": text, "count": 3})

    stripped = strip_recalled(text)

    for _ in range(depth):
        stripped = json.loads(stripped)["memory"]
    assert stripped == "Before.  Behind."


def test_a_quoted_frame_goes() -> None:
    quoted = "\n".join(f"> {line}" for line in LINES)

    assert strip_recalled(f"You wrote:\n{quoted}\nMy answer.") == "You wrote:\n> \nMy answer."


@pytest.mark.parametrize(
    "cut",
    [
        BLOCK[:-3],
        BLOCK[:-60],
        "\n".join(LINES[1:]),
        "\n".join(LINES[2:]),
        "\n".join(LINES[3:]),
        BLOCK.upper(),
        BLOCK.replace("\n", "\r\n"),
    ],
)
def test_a_cut_frame_leaves_no_recalled_text(cut: str) -> None:
    stripped = strip_recalled(cut).lower()

    assert not any(word in stripped for word in ("refunds", "supervisor", "forged", "please"))


def test_a_frame_without_its_end_inside_json_takes_its_string_alone() -> None:
    output = json.dumps({"memory": BLOCK[:-40], "count": 3})

    assert json.loads(strip_recalled(output)) == {"memory": "", "count": 3}


@given(
    st.lists(st.text(st.sampled_from("abc \"\\'#>-\n`[]:")).map(lambda text: f"LESSON {text}"), min_size=1)
)
def test_no_text_in_a_frame_stays_whatever_it_holds(texts: list[str]) -> None:
    assert "LESSON" not in strip_recalled(f"before {fenced(texts, [MARKER])} behind")


@given(st.text(st.sampled_from(f"[recalled memory {MARKER}: end] 2 entries\n\\\"'"), max_size=200))
def test_any_text_can_be_stripped(text: str) -> None:
    assert len(strip_recalled(text)) <= len(text)


@pytest.mark.parametrize(
    "piece",
    [
        f"[recalled memory {MARKER}: 2 entries]\n",
        f"[recalled memory {MARKER}: end]\n",
        f'"[recalled memory {MARKER}: 2 entries]\\n" ',
    ],
)
def test_a_text_of_300_000_characters_of_frames_is_stripped(piece: str) -> None:
    assert "recalled" not in strip_recalled(piece * (300_000 // len(piece)))


@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("depth", [0, 1])
def test_a_list_of_entries_loses_its_texts(depth: int, *, ensure_ascii: bool) -> None:
    texts = (*KNOWN, "Réserver avant midi,\ttoujours.")
    output = as_json(
        [RecalledEntry(UUID(int=n), n, text, 0.5, None) for n, text in enumerate(texts, start=1)]
    )
    for _ in range(depth):
        output = json.dumps({"memory": output, "count": 4}, ensure_ascii=ensure_ascii)
    call = ToolCall("recall", {}, output, is_error=False)

    prepared = prepare(outcome="success", task="", trace=[call], recalled=RecalledTexts(texts)).input

    left: object = json.loads(prepared.trace[0].output)
    if isinstance(left, dict):
        left = json.loads(left["memory"])
    assert isinstance(left, list)
    assert [(entry["rank"], entry["text"]) for entry in left] == [(1, ""), (2, ""), (3, ""), (4, "")]
