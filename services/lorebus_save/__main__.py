"""`python -m lorebus_save`: the save consumer until SIGTERM."""

from lorebus_kit.process import main
from lorebus_save.app import build
from lorebus_save.settings import SaveSettings

if __name__ == "__main__":
    main("save", SaveSettings, build)
