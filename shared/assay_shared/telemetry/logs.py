"""Logging as JSON lines with the ids of the current work."""

import json
import logging
import sys
import time
from functools import lru_cache

from assay_shared.telemetry.context import current_log_fields

_ENCODER = json.JSONEncoder(default=str)
# Attributes of every LogRecord; any other attribute came from `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


@lru_cache(maxsize=2)
def _to_second(seconds: int) -> str:
    """Return a time without its fraction; cached, because many lines share it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


class JsonFormatter(logging.Formatter):
    """Formatter of JSON lines: time, level, service, logger and message first.

    Context ids, `extra` fields and a traceback, if any, follow.
    """

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": f"{_to_second(int(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= current_log_fields()
        line |= {k: v for k, v in vars(record).items() if k not in _STANDARD}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _ENCODER.encode(line)


def set_up_logging(service: str, level: str) -> None:
    """Send all log lines of this process to standard error as JSON."""
    # Our lines have no source, thread or process, and collecting them costs time for each of
    # hundreds of lines a second (see the logging HOWTO).
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "filelock", "matplotlib", "PIL", "fsspec", "datasets"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def quiet_transformers() -> None:
    """Keep the progress bars and tips of transformers out of our logs."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
