"""Interpreters that stay between requests, and what their cells come to."""

from typing import Literal

from pydantic import ConfigDict

from assay_shared.types.execution import Files, Limits, Status
from assay_shared.types.wire import Wire


class SessionRequest(Wire):
    """A Python interpreter that keeps its names from cell to cell. `limits` are each cell's."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"profile": "std"}]})

    #: Which packages it finds.
    profile: Literal["std", "scientific"] = "std"
    #: Put where it starts, by name, in base64.
    files: Files = {}
    #: What each cell may use.
    limits: Limits = Limits()


class Session(Wire):
    """A session that lives; unused, it ends in `ends_in_s`."""

    #: What requests name it by.
    id: str
    #: Which packages it finds.
    profile: str
    #: What each cell may use.
    limits: Limits
    #: Seconds until it ends unused.
    ends_in_s: float
    #: What stands between it and the host.
    isolation: str


class Cell(Wire):
    """A text to run in a session."""

    #: Python code.
    code: str


class CellResult(Wire):
    """How a cell ran. `result` is the value of its last expression, as `repr` shows it.

    `ended`: the session is gone with all its names, and files.
    """

    #: How the cell ended.
    status: Status
    #: What it printed.
    stdout: str = ""
    #: What it printed to standard error, tracebacks included.
    stderr: str = ""
    #: The value of its last expression; null if there is none.
    result: str | None = None
    #: For people: what the status means here.
    message: str = ""
    #: Processor time, in seconds.
    cpu_time_s: float = 0.0
    #: Time by the clock, in seconds.
    wall_time_s: float = 0.0
    #: Whether the session is gone.
    ended: bool = False
