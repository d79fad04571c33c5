"""Settings of the recall labeller."""

from lorebus_kit.settings import ConsumerSettings


class RecallLabellerSettings(ConsumerSettings):
    """Those of every consumer; labelling needs nothing of its own."""
