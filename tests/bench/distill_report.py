"""`make distill-local`: what the rules make of all real sessions and a local model of ten, as `docs/distill-report.md`.

The rule that must not break: the part of the report that was written by reading stays; only what is below the mark is
made anew.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from lorebus_contracts.http_lessons import PreviewBody
from lorebus_contracts.wire import validate
from lorebus_kit.providers.directory import Providers
from lorebus_kit.providers.preview import Preview, preview
from lorebus_kit.providers.profiles import ModelProfile
from lorebus_kit.providers.usage import UnkeptUsage
from tests.bench.llama_server import LocalModel, llama_server

ROOT: Final = Path(__file__).parents[2]
SESSIONS: Final = ROOT / "services" / "lorebus_ops" / "data" / "sessions.jsonl"
REPORT: Final = ROOT / "docs" / "distill-report.md"
MARK: Final = "<!-- What follows is written by `make distill-local`. -->"
TEN: Final = (4, 11, 12, 16, 20, 24, 25, 26, 30, 40)
"""Of both outcomes, with two to nine calls: their prompts fit the small model's context with room for an answer."""
MODEL_SECONDS: Final = 1_800.0
OPTIONS: Final[Mapping[str, object]] = {"temperature": 0, "max_tokens": 400}
_NOBODY: Final = UUID(int=0)


def main() -> None:
    """Run the rules, then the model, and write the report."""
    words = argparse.ArgumentParser(description="Write docs/distill-report.md.")
    words.add_argument("environment", type=Path, help="Where llama.cpp's server and the model are installed.")
    words.add_argument("--log", type=Path, default=ROOT / ".cache" / "llama-server.log")
    words.add_argument(
        "--threads", type=int, default=1, help="Of the model; fewer than there are idle cores."
    )
    given = words.parse_args()
    sessions = [json.loads(line) for line in SESSIONS.read_text("utf-8").splitlines()]
    given.log.parent.mkdir(parents=True, exist_ok=True)
    ruled = asyncio.run(_previews(sessions, range(1, len(sessions) + 1), None))
    with llama_server(given.environment, threads=given.threads, log=given.log) as local:
        modelled = asyncio.run(_previews(sessions, TEN, local))
    written = REPORT.read_text("utf-8").partition(MARK)[0] if REPORT.exists() else "# What is distilled\n\n"
    made = (*_rules_part(sessions, ruled), *_model_part(local.model, modelled))
    REPORT.write_text(written + MARK + "\n\n" + "\n".join(made) + "\n", "utf-8")


async def _previews(
    sessions: Sequence[Mapping[str, Any]], numbers: Sequence[int], local: LocalModel | None
) -> dict[int, Preview]:
    providers = Providers({} if local is None else {"local": _profile(local)}, UnkeptUsage())
    found = {}
    try:
        for number in numbers:
            told = sessions[number - 1]
            body = validate(PreviewBody, {name: told[name] for name in ("outcome", "task", "trace")})
            found[number] = await preview(
                providers.of(None if local is None else "local"),
                organization_uuid=_NOBODY,
                outcome=body.outcome,
                task=body.task,
                trace=body.trace,
            )
            sys.stderr.write(f"lorebus: session {number} of {len(sessions)} is distilled\n")
    finally:
        await providers.close()
    return found


def _profile(local: LocalModel) -> ModelProfile:
    return ModelProfile(
        base_url=local.base_url, model=local.model, deadline_seconds=MODEL_SECONDS, options=OPTIONS
    )


def _rules_part(sessions: Sequence[Mapping[str, Any]], ruled: Mapping[int, Preview]) -> Iterator[str]:
    taught = sum(bool(made.lessons) for made in ruled.values())
    yield f"## The rules, all {len(ruled)} sessions\n"
    yield f"{taught} teach something, {len(ruled) - taught} nothing.\n"
    for number, made in ruled.items():
        told = sessions[number - 1]
        yield f"**{number}** ({told['outcome']}, {len(told['trace'])} calls)\n"
        yield from _lessons(made)


def _model_part(model: str, modelled: Mapping[int, Preview]) -> Iterator[str]:
    yield f"## The local model, {len(modelled)} sessions\n"
    yield f"`{model}` by llama.cpp's server, temperature 0, prompt version 1.\n"
    for number, made in modelled.items():
        cost = None if made.distilled is None else made.distilled.cost
        took = (
            f"{cost.prompt_tokens} + {cost.completion_tokens} tokens, {cost.milliseconds / 1000:.0f} s"
            if cost
            else f"failed: {made.failure_reason}"
        )
        yield f"**{number}** ({took})\n"
        yield from _lessons(made)


def _lessons(made: Preview) -> Iterator[str]:
    for one in made.lessons:
        held = f" *(held: {one.held_for})*" if one.held_for else ""
        text = " ".join(one.lesson.text.split())
        yield f"- {one.lesson.importance:.1f} {text}{held}"
    yield "" if made.lessons else "- nothing\n"


if __name__ == "__main__":
    main()
