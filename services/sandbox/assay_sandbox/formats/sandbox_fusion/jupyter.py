"""SandboxFusion's route for notebooks: its request and response, and their translation."""

import json
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from assay_sandbox.execution.host import is_faster_with_numpy
from assay_sandbox.formats.sandbox_fusion.programs import (
    CommandResult,
    FetchFiles,
    Files,
    RunCodeRequest,
    from_result,
    to_execution,
)
from assay_sandbox.slot.program import notebook
from assay_shared.types import ExecutionRequest, ExecutionResult, FileContent, ProgramRequest

_CELLS, _RESULTS = "cells.json", "results.json"
_MAX_CELLS = 1000


class RunJupyterRequest(BaseModel):
    """POST /run_jupyter. A `cell_timeout` of 0 means only `total_timeout` holds."""

    model_config = ConfigDict(extra="ignore")

    cells: list[str] = Field(max_length=_MAX_CELLS)
    cell_timeout: float = Field(default=0.0, ge=0, le=300)
    total_timeout: float = Field(default=45.0, gt=0, le=300)
    memory_limit_MB: int = -1  # as it is on the wire
    kernel: Literal["python3"] = "python3"
    files: Files = {}
    fetch_files: FetchFiles = []


class NotebookCell(BaseModel):
    """The output, displays and errors of a cell, in the form of Jupyter's messages."""

    stdout: str
    stderr: str
    display: list[dict[str, Any]]
    error: list[dict[str, Any]]


class RunJupyterResponse(BaseModel):
    """The result of a notebook. `Failed` means it did not reach its end.

    An error in a cell is not a failure of the notebook.
    """

    status: Literal["Success", "Failed", "SandboxError"]
    message: str
    driver: CommandResult | None = None
    cells: list[NotebookCell] = []
    executor_pod_name: str | None = None
    files: dict[str, FileContent] = {}


_CELL_RESULTS: TypeAdapter[list[NotebookCell]] = TypeAdapter(
    Annotated[list[NotebookCell], Field(max_length=_MAX_CELLS)]
)


@cache
def _driver() -> str:
    return Path(notebook.__file__).read_text()


def to_notebook(request: RunJupyterRequest) -> ExecutionRequest:
    """Return the request as a program to run the cells."""
    wanted = {"cells": request.cells, "cell_timeout": request.cell_timeout}
    execution = to_execution(_as_run(request))
    texts = (ProgramRequest(code=cell) for cell in request.cells)
    return execution.model_copy(
        update={
            "files": execution.files | {_CELLS: json.dumps(wanted).encode()},
            "fetch_files": (*execution.fetch_files, _RESULTS),
            "profile": "auto" if any(map(is_faster_with_numpy, texts)) else "std",
        }
    )


def _as_run(request: RunJupyterRequest) -> RunCodeRequest:
    return RunCodeRequest(
        code=_driver(),
        language="python",
        run_timeout=request.total_timeout,
        memory_limit_MB=request.memory_limit_MB,
        files=request.files,
        fetch_files=request.fetch_files,
    )


def from_notebook(result: ExecutionResult, request: RunJupyterRequest) -> RunJupyterResponse:
    """Return a notebook's result in SandboxFusion's format.

    This parses output of the notebook's process without trust: it may hold anything.
    """
    run = from_result(result, _as_run(request))
    response = RunJupyterResponse(status="Failed", message=run.message, driver=run.run_result)
    if run.status != "Success":
        return response
    try:
        cells = _CELL_RESULTS.validate_json(result.files.get(_RESULTS, b""))
    except ValidationError:
        message = "the notebook's process left no results that can be read"
        return response.model_copy(update={"message": message})
    return response.model_copy(update={"status": "Success", "cells": cells, "files": run.files})
