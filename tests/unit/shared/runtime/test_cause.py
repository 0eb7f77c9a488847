"""The cause of a service's end, found in its log."""

import json
from pathlib import Path

import pytest

from assay_shared.runtime.cause import cause_of_end

_TRACE = (
    'Traceback (most recent call last):\n  File "a.py", line 1, in b\n    raise C\n'
    "assay_shared.errors.WeightsRefused: m does not fit its own config.json\n"
)


def logged(message: str, level: str = "error") -> str:
    return json.dumps({"level": level, "logger": "uvicorn.error", "message": message})


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (
            [
                logged("started", "info"),
                logged(_TRACE),
                logged("Application startup failed. Exiting."),
                "a warning at the end",
            ],
            "WeightsRefused: m does not fit its own config.json",
        ),
        (["noise", "error: ASSAY_INFERENCE_MODEL: no such folder"], "ASSAY_INFERENCE_MODEL: no s"),
        ([logged("out of memory", "critical")], "out of memory"),
        (["Killed"], "Killed"),
        ([], "it ended at once"),
    ],
)
def test_the_cause_is_told_and_not_the_last_line(
    tmp_path: Path, lines: list[str], cause: str
) -> None:
    log = tmp_path / "service.log"
    log.write_text("\n".join(lines))
    assert cause_of_end(log).startswith(cause)
