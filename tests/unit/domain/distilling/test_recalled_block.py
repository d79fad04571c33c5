"""Taking a recalled-memory block out of a text (SPEC.md section 4, cases c22)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain import policy
from lorebus_domain.recalled_block import strip_recalled

KNOWN = ("Refunds over the limit need a supervisor.", "Search nonstop flights first.")
BLOCK = "## Recalled memory (ranked for this task)\n\n" + "\n---\n".join(KNOWN)


def test_a_text_without_a_block_stays_as_it_is() -> None:
    text = "# Recalled items\n\nWe recalled memory modules.\n---\nEnd."

    assert strip_recalled(text) == text


def test_a_block_goes_and_what_stands_before_it_and_in_the_next_section_stays() -> None:
    text = f"Hello.\n\n{BLOCK}\n\n## Task\n\nCancel the order."

    assert strip_recalled(text) == "Hello.\n\n## Task\n\nCancel the order."


def test_a_block_without_a_section_behind_it_takes_the_rest_of_the_text() -> None:
    assert strip_recalled(f"Hello.\n{BLOCK}\n\nand more") == "Hello.\n"


def test_a_heading_inside_a_recalled_text_does_not_end_the_block() -> None:
    notes = "# Notes\n\n## Deploys\n\nnever at night"
    block = f"## Recalled memory (ranked for this task)\n\n{notes}\n---\nlast"

    assert strip_recalled(f"{block}\n\n# Task\nx") == "# Task\nx"


def test_a_line_with_a_hash_right_below_a_text_does_not_end_the_block() -> None:
    text = "## Recalled memory (ranked for this task)\n\nRun:\n# as root\nmake all"

    assert strip_recalled(text) == ""


def test_two_blocks_far_apart_both_go_and_what_stands_between_them_stays() -> None:
    between = "# Then\n" + "b" * 40_000 + "\n"

    assert strip_recalled(f"a\n{BLOCK}\n\n{between}{BLOCK}") == f"a\n{between}"


def test_what_stands_between_two_near_blocks_goes_with_them() -> None:
    assert strip_recalled(f"a\n{BLOCK}\n\n# Then\nb\n{BLOCK}") == "a\n"


@pytest.mark.parametrize("prefix", ["> ", ">> ", "  > ", ">"])
def test_a_block_quoted_with_marks_goes_and_what_follows_the_quote_stays(prefix: str) -> None:
    quoted = "\n".join(prefix + line for line in BLOCK.split("\n"))

    assert strip_recalled(f"You wrote:\n{quoted}\nMy answer.") == f"You wrote:\n{prefix}My answer."


def test_a_block_inside_a_json_string_goes_and_the_json_stays_json() -> None:
    output = json.dumps({"context": f'Say "hi".\n{BLOCK} He said "no".', "count": 2})

    assert json.loads(strip_recalled(output)) == {"context": 'Say "hi".\n', "count": 2}


def test_a_block_inside_json_inside_a_json_string_goes() -> None:
    inner = json.dumps({"memory": f'{BLOCK} with "quotes" and a \\ in it', "count": 2})

    stripped = json.loads(strip_recalled(json.dumps({"body": inner})))

    assert json.loads(stripped["body"]) == {"memory": "", "count": 2}


def test_a_block_inside_a_python_literal_goes() -> None:
    assert strip_recalled(str({"memory": BLOCK, "count": 2})) == "{'memory': '', 'count': 2}"


def test_a_section_behind_the_block_inside_a_json_string_stays() -> None:
    output = json.dumps({"prompt": f"{BLOCK}\n\n# Task\nDo it."})

    assert json.loads(strip_recalled(output)) == {"prompt": "# Task\nDo it."}


@pytest.mark.parametrize(
    "cut",
    [
        BLOCK[:-20],
        BLOCK.replace(" (ranked for this task)", ""),
        BLOCK.replace(" (ranked for this task)", " (ranked fo"),
        BLOCK.removeprefix("## Recalled"),
        BLOCK.removeprefix("## Recalled memory ("),
        BLOCK.replace("\n", "\r\n"),
        BLOCK.upper(),
        json.dumps({"memory": BLOCK})[:-12],
    ],
)
def test_a_cut_block_leaves_no_recalled_text(cut: str) -> None:
    stripped = strip_recalled(f"before\n{cut}").lower()

    assert stripped.startswith("before\n")
    assert "refunds" not in stripped
    assert "nonstop" not in stripped


lesson_texts = st.text(st.sampled_from("abc \"\\'#>-\n`"), min_size=1, max_size=30).map(
    lambda text: f"LESSON {text}"
)
# A recalled text may hold a heading; only a last one with a heading after an empty line looks like the block's end.
last_texts = lesson_texts.filter(lambda text: "\n" not in text)


@given(st.lists(lesson_texts, max_size=4), last_texts, st.integers(0, 2))
def test_no_recalled_text_stays_however_the_block_is_wrapped(texts: list[str], last: str, depth: int) -> None:
    block = policy.PACK_HEADER + policy.TEXT_SEPARATOR.join([*texts, last])
    for _ in range(depth):
        block = json.dumps({"memory": block, "count": 1})

    assert "LESSON" not in strip_recalled(f"before {block}")


@given(st.text(st.sampled_from("## Recalled memory(rankdfothis)\n-\\\"'> "), max_size=200))
def test_any_text_can_be_stripped(text: str) -> None:
    stripped = strip_recalled(text)

    assert len(stripped) <= len(text)


@pytest.mark.parametrize(
    "piece", ["## Recalled memory\n", "## Recalled memory\\n", "\n---\n", "> ## Recalled memory\n> x\n"]
)
def test_a_text_of_300_000_characters_of_blocks_is_stripped(piece: str) -> None:
    assert "Recalled" not in strip_recalled(piece * (300_000 // len(piece)))
