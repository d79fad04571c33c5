"""Rows as text: for a terminal, and for a page in Markdown."""

from collections.abc import Sequence

from tests.bench.samples import Spread

_LARGE = 100


def terminal_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; numbers to the right, all else to the left."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [_line(header, widths), _line(["-" * width for width in widths], widths)]
    return "\n".join([*lines, *(_line(row, widths) for row in rows)])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same rows for a page."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', ' ') for cell in line)} |" for line in lines)


def amount(value: float) -> str:
    """A number as a person reads it: thousands apart when large, three digits when small."""
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= _LARGE else f"{value:.3g}"


def with_spread(spread: Spread) -> str:
    """The median, and in brackets the lowest and the highest when there are several."""
    if spread.repetitions == 1:
        return amount(spread.median)
    return f"{amount(spread.median)} ({amount(spread.lowest)}..{amount(spread.highest)})"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
        for cell, width in zip(cells, widths, strict=True)
    ]
    return "  ".join(padded).rstrip()
