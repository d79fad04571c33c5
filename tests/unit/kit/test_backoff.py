"""Waiting between tries."""

import asyncio

import pytest

from lorebus_kit.backoff import Backoff, pause


def test_delays_double_from_a_fifth_of_a_second_to_half_a_minute_within_their_jitter() -> None:
    backoff = Backoff()
    full = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    for most in full:
        assert most / 2 <= backoff.next_seconds() <= most


def test_after_ever_so_many_tries_the_delay_is_still_a_number() -> None:
    assert 15.0 <= Backoff(tries=100_000).next_seconds() <= 30.0


def test_a_reset_begins_with_the_shortest_delay_again() -> None:
    backoff = Backoff(tries=9)
    backoff.reset()
    assert 0.1 <= backoff.next_seconds() <= 0.2


def test_two_that_wait_do_not_wait_alike() -> None:
    assert len({Backoff().next_seconds() for _ in range(20)}) > 1


@pytest.mark.parametrize("set_before", [True, False])
async def test_a_pause_says_whether_it_was_broken_off(set_before: bool) -> None:  # noqa: FBT001 - A parameter of the test.
    stop = asyncio.Event()
    if set_before:
        stop.set()
    assert await pause(0.001 if not set_before else 60.0, stop) is set_before
