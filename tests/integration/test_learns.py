"""The loop learns: the same services, a short run, and pass@1 on held-out tasks must rise."""

import json
from pathlib import Path

import pytest

from tests.integration.conftest import Assay, demo_file
from tests.support.runs import SFT_ONLY

SHORT = (
    "data.held_out.num_tasks=200",
    "grpo.steps=25",
    "evaluation.samples_per_task=4",
    "evaluation.k=[1]",
)


@pytest.mark.nightly
def test_pass_at_1_on_held_out_tasks_rises(assay: Assay, tmp_path: Path) -> None:
    start, folder = tmp_path / "start", tmp_path / "run"
    assay.run("train", demo_file(), *SFT_ONLY, "--folder", str(start))
    warm = (f"policy={{folder: {start / 'models' / 'sft'}}}", "sft=null")
    assay.run("train", demo_file(), *warm, *SHORT, "--folder", str(folder), timeout_s=460)
    report = json.loads((folder / "report.json").read_text())
    difference = report["differences"]["pass_at_1"]
    assert difference["low"] > 0, difference
    assert report["training"]["failures"] == {}
    assert {e["num_without_score"] for e in report["evaluations"].values()} == {0}
