"""Kernels of GPUs, run by Triton's interpreter on the CPU."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[2]


def interpret(function: Callable[[], Any]) -> Any:
    """Return what a module's function returns, as JSON, in a process that has Triton.

    Skips the test without `make triton`.
    """
    folder = _ROOT / ".venv-triton"
    if not (folder / "triton").is_dir():
        pytest.skip("needs Triton: make triton")
    name = function.__name__
    code = f"import json; from {function.__module__} import {name}; print(json.dumps({name}()))"
    paths = os.pathsep.join([str(folder), str(_ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(done.stdout.splitlines()[-1])
