"""Log lines as JSON, one object a line, with the ids of the work in hand."""

import json
import logging
import sys
import time
from functools import lru_cache

from assay_shared.telemetry.context import current_log_fields

_ENCODER = json.JSONEncoder(default=str)
# What a LogRecord always has; anything else was given as `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


@lru_cache(maxsize=2)
def _to_second(seconds: int) -> str:
    """Return the time of many lines, but for its fraction."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


class JsonFormatter(logging.Formatter):
    """time, level, service, message; then context ids, `extra` fields and a traceback, if any."""

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
    # None of it is in our lines, and a service writes hundreds a second (see the logging HOWTO).
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "filelock", "matplotlib", "PIL", "fsspec", "datasets"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def quiet_transformers() -> None:
    """Keep its progress bars and tips out of our logs."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
