"""The provider `openai` against a real HTTP server that behaves like bad endpoints do."""

import json
import math
from typing import Final

import pytest

from lorebus_domain.distilling import Lesson
from lorebus_kit.providers.errors import (
    FailureReason,
    NotAskedError,
    ProviderAwayError,
    ProviderRefusedError,
)
from tests.integration.models.asking import Book, asking
from tests.support.model_server import (
    Behaviour,
    breaks_off,
    completion,
    fails,
    hangs,
    lessons,
    refuses_format,
    says,
    sends,
    stalls,
)

PAY_FIRST: Final = "Pay before `move_booking`."
NINE: Final = json.dumps(
    {"lessons": [{"text": f"Lesson {number}.", "importance": 0.5} for number in range(1, 10)]}
)
IMPORTANCES: Final = """{"lessons": [
    {"text": "eight", "importance": 8}, {"text": "high", "importance": "high"}, {"text": "nan", "importance": NaN},
    {"text": "negative", "importance": -0.5}, {"text": "null", "importance": null}]}"""
MIXED: Final = (
    '[{"text": "one", "importance": 0.7}, "two", {"importance": 1}, ["three"], 4, {"text": "ONE."}]'
)
INNER_FENCE: Final = "Run ```sh\nmake check\n``` before `submit`."

READABLE: Final[dict[str, tuple[object, tuple[Lesson, ...]]]] = {
    "plain JSON": (lessons(PAY_FIRST), (Lesson(PAY_FIRST, 0.5),)),
    "fenced JSON": (f"```json\n{lessons(PAY_FIRST)}\n```", (Lesson(PAY_FIRST, 0.5),)),
    "prose around JSON": (
        f"Sure! Here is what I learnt:\n{lessons(PAY_FIRST)}\nI hope that helps.",
        (Lesson(PAY_FIRST, 0.5),),
    ),
    "a reply cut in the middle": (
        '{"lessons": [{"text": "one", "importance": 0.5}, {"text": "two", "importance": 0.5}, {"text": "thr',
        (Lesson("one", 0.5), Lesson("two", 0.5)),
    ),
    "an inner fence in a lesson": (lessons(INNER_FENCE), (Lesson(INNER_FENCE, 0.5),)),
    "nine lessons": (NINE, tuple(Lesson(f"Lesson {number}.", 0.5) for number in range(1, 6))),
    "importance 8, high, NaN, negative, null": (
        IMPORTANCES,
        (
            Lesson("eight", 1.0),
            Lesson("high", 0.5),
            Lesson("nan", 0.5),
            Lesson("negative", 0.0),
            Lesson("null", 0.5),
        ),
    ),
    "objects and strings mixed": (MIXED, (Lesson("one", 0.7), Lesson("two", 0.5))),
    "the word null": ("null", ()),
    "no lessons": ('{"lessons": []}', ()),
    "the text in parts": (
        [{"type": "text", "text": '{"lessons": ["sp'}, {"type": "text", "text": 'lit"]}'}],
        (Lesson("split", 0.5),),
    ),
}


@pytest.mark.parametrize(("answer", "expected"), READABLE.values(), ids=READABLE)
async def test_an_answer_that_can_be_read_is_read_at_once(
    answer: object, expected: tuple[Lesson, ...]
) -> None:
    async with asking(says(answer)) as made:
        distilled = await made.distil()

    assert distilled.lessons == expected
    assert len(made.server.asked) == 1


async def test_of_nine_lessons_four_are_counted_as_dropped_and_a_repeat_as_folded() -> None:
    async with asking(says(NINE), says(MIXED)) as made:
        nine, mixed = await made.distil(), await made.distil()

    assert (nine.dropped, nine.folded) == (4, 0)
    assert (mixed.dropped, mixed.folded) == (3, 1)


async def test_five_megabytes_of_lessons_are_read_and_cut_to_five() -> None:
    many = json.dumps([{"text": f"Lesson {number}, {'x' * 90}."} for number in range(50_000)])
    assert len(many) > 5_000_000

    async with asking(says(many)) as made:
        distilled = await made.distil()

    assert len(distilled.lessons) == 5
    assert distilled.lessons[0].text.startswith("Lesson 0, xxx")


async def test_five_megabytes_of_prose_fail_after_a_second_answer() -> None:
    async with asking(otherwise=says("blah " * 1_000_000)) as made:
        with pytest.raises(ProviderRefusedError) as raised:
            await made.distil()

    assert raised.value.reason is FailureReason.UNREADABLE_ANSWER
    assert len(made.server.asked) == 2


UNREADABLE: Final[dict[str, Behaviour]] = {
    "prose": says("I could not find any lessons, sorry."),
    "no content": says(None),
    "blank content": says("  \n"),
    "a number": says("5"),
    "no choices": sends({"choices": []}),
    "choices of another type": sends({"choices": "none"}),
    "an error with status 200": sends({"error": {"message": "overloaded"}}),
    "a list": sends([]),
    "nothing": sends(b""),
    "a page of HTML": sends(b"<html>Bad gateway</html>", content_type="text/html"),
    "broken JSON": sends(b'{"choices": [{"message'),
    "not UTF-8": sends(b"\xff\xfe\x00"),
    "more than is read": sends(b'{"choices": "' + b"x" * (17 * 1024 * 1024) + b'"}'),
}


@pytest.mark.parametrize("behaviour", UNREADABLE.values(), ids=UNREADABLE)
async def test_an_answer_that_cannot_be_read_is_asked_for_once_more_with_the_same_prompt(
    behaviour: Behaviour,
) -> None:
    async with asking(behaviour, says(lessons(PAY_FIRST))) as made:
        distilled = await made.distil()

    assert [lesson.text for lesson in distilled.lessons] == [PAY_FIRST]
    first, second = made.server.asked
    assert first.body == second.body
    assert distilled.cost is not None
    assert distilled.cost.calls == 2


@pytest.mark.parametrize("behaviour", UNREADABLE.values(), ids=UNREADABLE)
async def test_what_is_unreadable_twice_fails_with_the_reason(behaviour: Behaviour) -> None:
    async with asking(otherwise=behaviour) as made:
        with pytest.raises(ProviderRefusedError) as raised:
            await made.distil()

    assert raised.value.reason is FailureReason.UNREADABLE_ANSWER
    assert len(made.server.asked) == 2


@pytest.mark.parametrize(
    "behaviour",
    [
        says(None, refusal="I cannot help with that."),
        sends({"choices": [{"finish_reason": "content_filter", "message": {"content": ""}}]}),
    ],
    ids=["a refusal", "a content filter"],
)
async def test_a_model_that_declines_is_not_asked_again(behaviour: Behaviour) -> None:
    async with asking(otherwise=behaviour) as made:
        with pytest.raises(ProviderRefusedError) as raised:
            await made.distil()

    assert raised.value.reason is FailureReason.MODEL_DECLINED
    assert len(made.server.asked) == 1


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (fails(429), FailureReason.RATE_LIMITED),
        (fails(500), FailureReason.MODEL_AWAY),
        (fails(503), FailureReason.MODEL_AWAY),
        (fails(529), FailureReason.MODEL_AWAY),
        (fails(408), FailureReason.MODEL_AWAY),
        (breaks_off(lessons(PAY_FIRST)), FailureReason.MODEL_AWAY),
    ],
    ids=["429", "500", "503", "529", "408", "broken off"],
)
async def test_an_endpoint_in_trouble_is_worth_another_attempt(
    behaviour: Behaviour, reason: FailureReason
) -> None:
    async with asking(otherwise=behaviour) as made:
        with pytest.raises(ProviderAwayError) as raised:
            await made.distil()

    assert (raised.value.reason, raised.value.retry_after_seconds) == (reason, None)
    # The client repeats nothing by itself: each call would have to be counted.
    assert len(made.server.asked) == 1


@pytest.mark.parametrize("behaviour", [stalls(lessons(PAY_FIRST)), hangs()], ids=["stalls", "hangs"])
async def test_an_endpoint_that_stalls_is_given_up_at_the_deadline(behaviour: Behaviour) -> None:
    async with asking(otherwise=behaviour, deadline_seconds=0.3) as made:
        with pytest.raises(ProviderAwayError) as raised:
            await made.distil()

    assert raised.value.reason is FailureReason.MODEL_TIMEOUT


async def test_an_endpoint_that_is_not_there_is_worth_another_attempt() -> None:
    async with asking(base_url="http://127.0.0.1:9/v1") as made:
        with pytest.raises(ProviderAwayError) as raised:
            await made.distil()

    assert raised.value.reason is FailureReason.MODEL_AWAY


@pytest.mark.parametrize("status", [401, 402, 403, 404, 413])
async def test_a_request_that_is_refused_is_not_made_again(status: int) -> None:
    async with asking(otherwise=fails(status)) as made:
        with pytest.raises(ProviderRefusedError) as raised:
            await made.distil()

    assert raised.value.reason is FailureReason.REQUEST_REFUSED
    assert str(raised.value) == f"the model's endpoint refused the request with status {status}"
    assert len(made.server.asked) == 1


@pytest.mark.parametrize(("status", "expected"), [(429, 7.0), (503, 7.0)])
async def test_retry_after_is_told_and_nobody_asks_before(status: int, expected: float) -> None:
    async with asking(fails(status, retry_after="7"), says(lessons(PAY_FIRST))) as made:
        with pytest.raises(ProviderAwayError) as raised:
            await made.distil()
        with pytest.raises(NotAskedError) as postponed:
            await made.distil()

    assert raised.value.retry_after_seconds == expected
    assert 6.0 < postponed.value.due_in_seconds <= 7.0
    assert len(made.server.asked) == 1


async def test_an_endpoint_may_ask_to_be_asked_again_at_once() -> None:
    async with asking(fails(429, retry_after="0"), says(lessons(PAY_FIRST))) as made:
        with pytest.raises(ProviderAwayError):
            await made.distil()
        assert (await made.distil()).lessons == (Lesson(PAY_FIRST, 0.5),)


@pytest.mark.parametrize("status", [400, 422, 501])
async def test_an_endpoint_that_rejects_response_format_is_asked_without_and_remembered(status: int) -> None:
    async with asking(otherwise=refuses_format(says(lessons(PAY_FIRST)), status=status)) as made:
        first, second = await made.distil(), await made.distil()

    assert first.lessons == second.lessons == (Lesson(PAY_FIRST, 0.5),)
    assert ["response_format" in asked.body for asked in made.server.asked] == [True, False, False]
    assert first.cost is not None
    assert first.cost.calls == 2


async def test_an_endpoint_that_refuses_the_request_as_a_whole_is_asked_with_the_format_next_time() -> None:
    async with asking(fails(400), fails(400), says(lessons(PAY_FIRST))) as made:
        with pytest.raises(ProviderRefusedError):
            await made.distil()
        assert (await made.distil()).lessons == (Lesson(PAY_FIRST, 0.5),)

    assert ["response_format" in asked.body for asked in made.server.asked] == [True, False, True]


async def test_no_schema_that_is_sent_holds_a_bound_that_endpoints_refuse() -> None:
    async with asking(says(lessons())) as made:
        await made.distil()

    sent = json.dumps(made.server.asked[0].body["response_format"])
    assert '"additionalProperties": false' in sent
    for bound in ("maxItems", "minItems", "maxLength", "minimum", "maximum"):
        assert bound not in sent


async def test_the_request_carries_the_profiles_model_key_and_options() -> None:
    async with asking(says(lessons()), options={"temperature": 0, "max_tokens": 700}) as made:
        await made.distil()

    [asked] = made.server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer sk-of-the-tests"
    assert (asked.body["model"], asked.body["temperature"], asked.body["max_tokens"]) == (
        "tiny-instruct",
        0,
        700,
    )


async def test_without_a_key_none_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")

    async with asking(says(lessons()), api_key=None) as made:
        await made.distil()

    assert "somebody" not in json.dumps(dict(made.server.asked[0].headers))


async def test_what_a_distill_took_is_told_as_the_endpoint_counted_it() -> None:
    async with asking(
        says("no JSON"), says(lessons(PAY_FIRST)), prompt_token_price=0.001, completion_token_price=0.01
    ) as made:
        distilled = await made.distil()

    cost = distilled.cost
    assert cost is not None
    assert (distilled.provider, distilled.version, distilled.prompt_version) == ("openai", "1", "1")
    assert (cost.model, cost.calls, cost.prompt_tokens, cost.completion_tokens) == (
        "tiny-instruct",
        2,
        1400,
        80,
    )
    assert cost.milliseconds >= 0
    assert cost.price is not None
    assert math.isclose(cost.price, 2.2)
    assert made.book.settled == [(700, 40), (700, 40)]


async def test_an_endpoint_that_counts_no_tokens_has_them_estimated() -> None:
    uncounted = completion(lessons("x" * 400)) | {"usage": None, "model": None}

    async with asking(sends(uncounted)) as made:
        distilled = await made.distil()

    [estimate] = made.book.begun
    assert distilled.cost is not None
    assert (distilled.cost.model, distilled.cost.prompt_tokens) == ("tiny-instruct", estimate)
    assert 100 < distilled.cost.completion_tokens < 130


async def test_a_call_is_counted_before_it_is_made_and_none_is_made_over_budget() -> None:
    async with asking(otherwise=says("no JSON"), book=Book(calls_left=1)) as made:
        with pytest.raises(NotAskedError) as raised:
            await made.distil()

    assert raised.value.reason is FailureReason.OVER_BUDGET
    assert len(made.server.asked) == 1


async def test_nothing_that_an_endpoint_says_is_in_an_error() -> None:
    echoing = fails(
        500, body={"error": {"message": "could not parse: move the booking to Friday", "code": "Friday"}}
    )

    async with asking(echoing, fails(400, body=b"Friday"), fails(400, body=b"Friday")) as made:
        for _ in range(2):
            with pytest.raises((ProviderAwayError, ProviderRefusedError)) as raised:
                await made.distil()
            assert "Friday" not in str(raised.value)
            assert raised.value.__cause__ is None
