"""Settings of the prune consumer."""

from lorebus_kit.settings import ConsumerSettings


class PruneSettings(ConsumerSettings):
    """Those of every consumer; pruning needs nothing of its own."""
