"""Sessions (Python interpreters kept between requests), their cells and the cells' results."""

from typing import Literal

from pydantic import ConfigDict

from assay_shared.types.execution import Files, Limits, Status
from assay_shared.types.wire import Wire


class SessionRequest(Wire):
    """A request for an interpreter with names kept from cell to cell. `limits` are each cell's."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"profile": "std"}]})

    #: The packages that the session finds.
    profile: Literal["std", "scientific"] = "std"
    #: Files to put into the session's working directory, by name, in base64.
    files: Files = {}
    #: Limits of each cell.
    limits: Limits = Limits()


class Session(Wire):
    """A live session; unused, it ends in `ends_in_s`."""

    #: The session's id, for requests.
    id: str
    #: The packages that the session finds.
    profile: str
    #: Limits of each cell.
    limits: Limits
    #: Seconds until the session ends if unused.
    ends_in_s: float
    #: The isolation between the session and the host.
    isolation: str


class Cell(Wire):
    """A text to run in a session."""

    #: Python code.
    code: str


class CellResult(Wire):
    """The run of a cell. `result` is the value of its last expression, as `repr` shows it.

    `ended`: the session is gone, with all its names and files.
    """

    #: How the cell ended.
    status: Status
    #: The cell's standard output.
    stdout: str = ""
    #: The cell's standard error, tracebacks included.
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
