"""Logs: one JSON object a line on standard output. Never memory text, tokens or keys."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """A record as one JSON line: at, level, service, action, then what `extra` gave."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """The line; an exception is told by type and place, without its values."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "service": self._service,
            "action": record.getMessage(),
        }
        line.update({key: value for key, value in vars(record).items() if key not in _STANDARD})
        if record.exc_info and record.exc_info[0] is not None:
            line["error_type"] = record.exc_info[0].__name__
            line["error_at"] = _place(record)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure_logs(service: str, level: str = "INFO") -> None:
    """Send everything to standard output as JSON lines; the clients' own chatter only from WARNING on."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for chatty in (
        "aiokafka",
        "faststream",
        "uvicorn",
        "sqlalchemy",
        "asyncio",
        "mcp",
        "openai",
        "httpx2",
        "httpcore2",
    ):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def _place(record: logging.LogRecord) -> str:
    trace = record.exc_info[2] if record.exc_info else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename.rsplit('/', 2)[-1]}:{trace.tb_lineno}" if trace else ""
