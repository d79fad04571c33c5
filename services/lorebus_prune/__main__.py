"""`python -m lorebus_prune`: the prune consumer until SIGTERM."""

from lorebus_kit.process import main
from lorebus_prune.app import build
from lorebus_prune.settings import PruneSettings

if __name__ == "__main__":
    main("prune", PruneSettings, build)
