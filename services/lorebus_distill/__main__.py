"""`python -m lorebus_distill`: the distill consumer and its workers until SIGTERM."""

from lorebus_distill.app import build
from lorebus_distill.settings import DistillSettings
from lorebus_kit.process import main

if __name__ == "__main__":
    main("distill", DistillSettings, build)
