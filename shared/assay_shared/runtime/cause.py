"""The cause of a service's end, found in its log."""

import json
import re
from pathlib import Path

from assay_shared.runtime.processes import last_lines

#: What the command prints before an error, and uvicorn's last line after one.
_SAID, _STARTUP_FAILED = "error: ", "Application startup failed. Exiting."
_LOG_LINES, _MAX_CAUSE = 100, 600


def cause_of_end(log: Path) -> str:
    """Return why a service ended: the text of the newest error in its log, else the last line."""
    lines = last_lines(log, _LOG_LINES)
    for line in reversed(lines):
        if line.startswith(_SAID):
            return line.removeprefix(_SAID)[:_MAX_CAUSE]
        if cause := _logged_error(line):
            return cause[:_MAX_CAUSE]
    return (lines[-1] if lines else "it ended at once")[:_MAX_CAUSE]


def _logged_error(line: str) -> str | None:
    """Return the error of a JSON line, without its traceback; None for other lines."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("level") not in ("error", "critical"):
        return None
    told = str(entry.get("traceback") or entry.get("message") or "").strip()
    if told == _STARTUP_FAILED:
        return None
    is_traceback = told.startswith("Traceback")
    last = told.splitlines()[-1] if told else ""
    return re.sub(r"^(\w+\.)+(?=\w+: )", "", last) if is_traceback else last
