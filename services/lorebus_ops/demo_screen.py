"""What the demo shows: a board that fills while sessions are learnt from, then one user's memory by each strategy."""

from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from lorebus_domain.recall import Strategy
from lorebus_ops.demo_ledger import Ledger, SessionStory
from lorebus_ops.demo_next import NextSession

LATEST_SHOWN: Final = 6
_LABEL_STYLES: Final = {"success": "green", "failed": "red"}


def board(ledger: Ledger, expected: int) -> RenderableType:
    """Totals so far, and the latest sessions with what became of each; `expected` sessions in all."""
    complete = sum(story.is_complete for story in ledger.stories)
    return Group(
        Rule("Lorebus learns from real sessions", align="left", style="cyan"),
        _bar(complete, expected),
        _totals(ledger, expected),
        _latest(ledger),
    )


def show_next_session(console: Console, following: NextSession) -> None:
    """Show what each strategy handed the next session of a user who came back."""
    last = following.last
    console.print(Rule(f"the next session of {last.caller.ref}", align="left", style="cyan"))
    console.print(f"[dim]task:[/] {_line(last.task, 140)}\n", soft_wrap=True)
    for strategy, answer in following.loads.items():
        title = f"{strategy} · {answer['count']} entries"
        console.print(Panel(Text(answer["memory"]), title=title, title_align="left", border_style="cyan"))
        if strategy is Strategy.PACK:
            console.print(_score_parts(answer))


def _bar(complete: int, expected: int) -> Table:
    row = Table.grid()
    row.add_row(ProgressBar(total=expected, completed=complete, width=78))
    return row


def _totals(ledger: Ledger, expected: int) -> Table:
    totals = ledger.totals()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("sessions in", f"[bold]{totals['sessions']}[/] of {expected}")
    table.add_row("distilled", f"[bold]{totals['distilled']}[/]")
    table.add_row("skipped", _counts(totals["skipped"]))
    table.add_row("saved", f"[bold green]{totals['saved']}[/] lessons")
    table.add_row("reinforced", f"[bold]{totals['reinforced']}[/] times")
    table.add_row("recalls", f"[bold]{totals['recalls']}[/]")
    table.add_row("labels", _counts(totals["labels"]))
    return table


def _latest(ledger: Ledger) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("session of", "ended", "recalled", "learnt", "label"):
        table.add_column(heading, no_wrap=True)
    for story in ledger.stories[-LATEST_SHOWN:]:
        label = story.receipt.get("label") or "·"
        table.add_row(
            story.session.caller.ref or f"({story.session.caller.kind})",
            story.session.outcome,
            f"{story.launch.recall.get('count', 0)} entries",
            _learnt(story),
            Text(label, style=_LABEL_STYLES.get(label, "dim")),
        )
    return table


def _learnt(story: SessionStory) -> str:
    if not story.is_learnt:
        return "..."
    skipped = story.distill["state_data"].get("skipped_reason")
    if skipped:
        return str(skipped)
    save = story.save["state_data"]
    return f"{save['saved']} new, {save['reinforced']} confirmed"


def _score_parts(answer: dict[str, Any]) -> Table:
    table = Table(title="score = 0.60 relevance + 0.25 importance + 0.15 recency", title_justify="left")
    for heading in ("rank", "score", "relevance", "importance", "recency", "entry"):
        table.add_column(heading, justify="left" if heading == "entry" else "right")
    texts = answer["memory"].partition("\n\n")[2].split("\n---\n")
    for entry, text in zip(answer["explanation"]["entries"], texts, strict=False):
        parts = (f"{entry[name]:.3f}" for name in ("score", "relevance", "importance", "recency"))
        table.add_row(str(entry["rank"]), *parts, _line(text, 70))
    for entry in answer["explanation"]["passed_over"]:
        parts = (f"{entry[name]:.3f}" for name in ("score", "relevance", "importance", "recency"))
        table.add_row("-", *parts, f"passed over: {entry['reason']}", style="dim")
    return table


def _counts(counts: object) -> str:
    if not isinstance(counts, dict) or not counts:
        return "0"
    return ", ".join(f"[bold]{count}[/] {name}" for name, count in counts.items())


def _line(text: str, width: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
