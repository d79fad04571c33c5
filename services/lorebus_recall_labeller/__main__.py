"""`python -m lorebus_recall_labeller`: the recall labeller until SIGTERM."""

from lorebus_kit.process import main
from lorebus_recall_labeller.app import build
from lorebus_recall_labeller.settings import RecallLabellerSettings

if __name__ == "__main__":
    main("recall-labeller", RecallLabellerSettings, build)
