"""Rows as text."""

from tests.bench.samples import Spread
from tests.bench.tables import amount, markdown_table, terminal_table, with_spread


def test_numbers_are_to_the_right_and_words_to_the_left() -> None:
    table = terminal_table(("what", "rate"), [("saves", "12 345"), ("a", "7")])
    assert table.splitlines() == [
        "what   rate",
        "-----  ------",
        "saves  12 345",
        "a           7",
    ]


def test_a_page_has_the_same_rows() -> None:
    assert markdown_table(("what", "rate"), [("a|b", "7")]).splitlines() == [
        "| what | rate |",
        "| --- | --- |",
        "| a b | 7 |",
    ]


def test_large_amounts_have_no_decimals_and_small_ones_three_digits() -> None:
    assert [amount(value) for value in (12345.6, 99.96, 0.12345)] == ["12 346", "100", "0.123"]


def test_one_measurement_has_no_spread() -> None:
    assert with_spread(Spread.of([7.0])) == "7"
    assert with_spread(Spread.of([7.0, 8.0, 9.0])) == "8 (7..9)"
