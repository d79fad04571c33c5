"""Settings of the distill consumer and its workers."""

from pydantic import Field

from lorebus_kit.providers.usage import ModelSettings
from lorebus_kit.settings import ConsumerSettings, Seconds


class DistillSettings(ConsumerSettings, ModelSettings):
    """Those of every consumer, the models, and how the workers distil."""

    distill_concurrency: int = Field(default=4, ge=1, le=100, description="Distills at once in one process.")
    distill_concurrency_per_organization: int = Field(
        default=2, ge=1, le=100, description="Of these, for one organization."
    )
    distill_deadline_seconds: Seconds = Field(
        default=60.0, description="Longest that one attempt may take where no model's profile says otherwise."
    )
    distill_retry_seconds: Seconds = Field(
        default=20.0,
        description="About how long a distill waits after its first attempt; twice as long after each further one.",
    )
