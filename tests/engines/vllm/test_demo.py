"""The demo with vLLM as its engine, on the CPU: every stage happens, with a step of GRPO."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runs import LOOKUP
from tests.support.vllm.interpreter import NEEDS_VLLM, START_TIMEOUT_S, vllm_python

pytestmark = [NEEDS_VLLM, pytest.mark.slow, pytest.mark.timeout(2 * START_TIMEOUT_S + 600)]


def test_the_demo_runs_on_vllm(tmp_path: Path) -> None:
    settings = {
        "ASSAY_INFERENCE_ENGINE": "vllm",
        "ASSAY_INFERENCE_VLLM_PYTHON": vllm_python(),
        "ASSAY_INFERENCE_VLLM_ARGUMENTS": "--enforce-eager",
        "ASSAY_INFERENCE_START_TIMEOUT_S": str(START_TIMEOUT_S),
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    overrides = (*LOOKUP, "grpo.steps=1", "grpo.max_groups_per_step=48")
    process = subprocess.run(
        [sys.executable, "-m", "assay_shared.cli", "demo", *overrides, "--home", "home"],
        cwd=tmp_path,  # a folder named `vllm` there would be imported in its place
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=2 * START_TIMEOUT_S + 500,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    report = re.search(r"^report: (\S+)$", process.stdout, re.MULTILINE)
    assert report is not None
    facts = json.loads(Path(report.group(1)).with_suffix(".json").read_text())
    assert facts["training"]["num_steps"] == 1
    assert facts["training"]["failures"] == {}
    assert facts["training"]["mismatch"]["mean_abs_nats"] < 1e-3
