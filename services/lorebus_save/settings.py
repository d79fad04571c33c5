"""Settings of the save consumer."""

from lorebus_kit.settings import ConsumerSettings


class SaveSettings(ConsumerSettings):
    """Those of every consumer; saving needs nothing of its own."""
