"""What became of each session of the demo, asked for over HTTP until all of it is known."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from lorebus_contracts.events import SessionEnded, SessionRated
from lorebus_domain.labelling import label_of_outcome, label_of_rating
from lorebus_kit.run_ids import distill_run_id, distill_save_id
from lorebus_ops.demo_runtime import DemoRuntime, Launch
from lorebus_ops.errors import StackError

ASK_AGAIN_SECONDS: Final = 0.1
SEND_AGAIN_SECONDS: Final = 12.0
"""A session of which nothing is known for so long is told again: a broker in memory may have lost it."""
AT_ONCE: Final = 6


@dataclass(slots=True)
class SessionStory:
    """One session: what it was given at its launch, what was learnt from it, how its recall is labelled."""

    session: SessionEnded
    launch: Launch
    rating: SessionRated | None
    told_at: float
    distill: dict[str, Any] = field(default_factory=dict)
    save: dict[str, Any] = field(default_factory=dict)
    receipt: dict[str, Any] = field(default_factory=dict)

    @property
    def expects_save(self) -> bool:
        """Its distill gave lessons."""
        return bool(self.distill.get("state_data", {}).get("save_workflow_id"))

    @property
    def expects_recall(self) -> bool:
        """It was answered by a recall that is recorded."""
        return bool(self.launch.recall.get("recall_id"))

    @property
    def is_learnt(self) -> bool:
        """Its distill has ended, and its save where there is one."""
        return _ended(self.distill) and (not self.expects_save or _ended(self.save))

    @property
    def is_complete(self) -> bool:
        """All that can be known of it is known."""
        return self.is_learnt and (not self.expects_recall or self.is_labelled)

    @property
    def is_labelled(self) -> bool:
        """Its recall has the label that it should end up with; a rating may come after the end."""
        label = label_of_outcome(self.session.outcome)
        if self.rating is not None:
            label = label_of_rating(self.rating.quality_score)
        return bool(self.receipt) and self.receipt.get("label") == label


class Ledger:
    """All sessions told so far."""

    def __init__(self, runtime: DemoRuntime) -> None:
        self._runtime = runtime
        self.stories: list[SessionStory] = []

    async def until_learnt(self, stories: Iterable[SessionStory], *, seconds: float) -> None:
        """Wait until these sessions are distilled and saved.

        Raises:
            StackError: they are not, in time.
        """
        await self._until([story for story in stories if not story.is_learnt], "is_learnt", seconds)

    async def until_complete(self, *, seconds: float) -> None:
        """Wait until everything is known of every session.

        Raises:
            StackError: it is not, in time.
        """
        await self._until([story for story in self.stories if not story.is_complete], "is_complete", seconds)

    def totals(self) -> dict[str, object]:
        """The numbers of the demo; the same whatever was killed meanwhile."""
        skips = Counter(
            story.distill["state_data"]["skipped_reason"]
            for story in self.stories
            if _ended(story.distill) and story.distill["state_data"].get("skipped_reason")
        )
        saves = [story.save["state_data"] for story in self.stories if _ended(story.save)]
        labels = Counter(story.receipt["label"] for story in self.stories if story.receipt.get("label"))
        return {
            "sessions": len(self.stories),
            "distilled": sum(story.expects_save for story in self.stories),
            "skipped": dict(sorted(skips.items())),
            "saved": sum(save["saved"] for save in saves),
            "reinforced": sum(save["reinforced"] for save in saves),
            "recalls": sum(bool(story.receipt) for story in self.stories),
            "labels": dict(sorted(labels.items())),
        }

    async def refresh(self, stories: Iterable[SessionStory] | None = None) -> None:
        """Ask once for what is not known yet."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(story: SessionStory) -> None:
            async with gate:
                await self._refresh(story)

        due = [story for story in (self.stories if stories is None else stories) if not story.is_complete]
        await asyncio.gather(*map(one, due))

    async def _until(self, waited_for: list[SessionStory], condition: str, seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        give_up = clock() + seconds
        while not all(getattr(story, condition) for story in waited_for):
            if clock() > give_up:
                missing = sum(not getattr(story, condition) for story in waited_for)
                raise StackError(f"{missing} sessions were not handled within {seconds:.0f} s")
            await self.refresh(waited_for)
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _refresh(self, story: SessionStory) -> None:
        organization, session = story.session.organization_uuid, story.session.session_uuid
        if not _ended(story.distill):
            story.distill = await self._run(story, str(distill_run_id(session)))
        if story.expects_save and not _ended(story.save):
            story.save = await self._run(story, str(distill_save_id(session)))
        if story.expects_recall and not story.is_labelled:
            recall_id = story.launch.recall["recall_id"]
            story.receipt = await self._runtime.ask(
                organization, "GET", f"/api/app/agents/recalls/{recall_id}"
            )
        await self._tell_again(story)

    async def _run(self, story: SessionStory, run_id: str) -> dict[str, Any]:
        return await self._runtime.ask(story.session.organization_uuid, "GET", f"/api/workflows/{run_id}")

    async def _tell_again(self, story: SessionStory) -> None:
        """Repeat what may have been lost with a process that was killed: harmless where it was not."""
        clock = asyncio.get_running_loop().time
        if clock() - story.told_at < SEND_AGAIN_SECONDS:
            return
        story.told_at = clock()
        await self._runtime.tell(story.session)
        if story.rating is not None:
            await self._runtime.tell(story.rating)
        if story.expects_recall and not story.receipt:
            recall = await self._runtime.load(story.session.session_uuid, story.launch.token)
            story.launch = Launch(story.launch.token, recall)


def _ended(run: dict[str, Any]) -> bool:
    return bool(run.get("is_terminal"))
