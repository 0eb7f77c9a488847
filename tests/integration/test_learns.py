"""The loop learns: the same services, a short run, and pass@1 on held-out tasks must rise."""

import json
from pathlib import Path

import pytest

from tests.integration.conftest import Assay, demo_file

SHORT = (
    "data.held_out.num_tasks=200",
    "grpo.steps=25",
    "evaluation.samples_per_task=4",
    "evaluation.k=[1]",
)


@pytest.mark.nightly
@pytest.mark.timeout(480)
def test_pass_at_1_on_held_out_tasks_rises(
    assay: Assay, warm: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    assay.run("train", demo_file(), *warm, *SHORT, "--folder", str(folder), timeout_s=460)
    report = json.loads((folder / "report.json").read_text())
    difference = report["differences"]["pass_at_1"]
    assert difference["low"] > 0, difference
    assert report["training"]["failures"] == {}
    assert {e["num_without_score"] for e in report["evaluations"].values()} == {0}
