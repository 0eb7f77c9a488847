"""An ablation on real services: killed, resumed, judged."""

import json
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from assay_shared.runs.run_folder import RunFolder
from assay_shared.settings.run_file import read_yaml
from assay_trainer.ablation.judging.findings import AblationReport, JudgedVerdict
from assay_trainer.rollouts.rollout_log import read_rollouts
from tests.integration.conftest import Assay, demo_file, wait_for_event
from tests.support.runs import LOOKUP

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1500)]
ARMS: dict[str, Any] = {
    "slow": {"grpo.learning_rate": 1e-4},
    "fast": {"grpo.learning_rate": 1e-3},
    "long": {"grpo.max_tokens": 255, "grpo.temperature": 0.9},
    "clip": {"grpo.max_tokens": 24, "grpo.temperature": 1.0, "grpo.clip_high": 0.4},
}


def write_ablation(folder: Path) -> Path:
    """Write two arms that differ, one without room for a prompt, and one whose clip cannot act."""
    overrides = dict(one.split("=", 1) for one in LOOKUP)
    short = {"sft.steps": 120, "grpo.steps": 2, "grpo.max_staleness": 0, "grpo.allow_inert": True}
    values = {
        "name": "killed",
        "run": read_yaml(Path(demo_file())),
        "overrides": {key: yaml.safe_load(text) for key, text in overrides.items()} | short,
        "arms": ARMS,
        "seeds": [1, 2],
        "evaluation": {"metrics": ["pass@1", "reward"], "limit": 8},
    }
    path = folder / "ablation.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def first_draws(run: Path) -> set[str]:
    """The draws and tasks of a run's first step."""
    keys = (one.group.key for one in read_rollouts(run / "rollouts.jsonl") if one.step == 1)
    return {"/".join(key.split("/")[1:-2]) for key in keys}


def test_an_ablation_killed_in_an_arm_is_resumed_to_its_report(
    assay: Assay, tmp_path: Path
) -> None:
    file, folder = write_ablation(tmp_path), tmp_path / "ablation"
    process = assay.start("ablate", str(file), "--folder", str(folder))
    run = folder / "ablation-slow-s1"
    wait_for_event(run, "step", timeout_s=600, step=1)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    assay.finish(process)
    psutil.wait_procs(children, timeout=60)
    assert not [one for one in children if one.is_running()], "a run was left behind"

    process = assay.start("ablate", "--resume", str(folder))
    output = assay.finish(process, timeout_s=1200)
    assert process.returncode == 1, output
    report = AblationReport.model_validate_json((folder / "report.json").read_bytes())
    assert report.controls_work
    assert {arm.name: arm.state for arm in report.arms} == {
        "slow": "COMPARED",
        "fast": "COMPARED",
        "long": "FAILED",
        "clip": "NO EFFECT",
    }
    assert not (folder / "ablation-clip-s1").exists(), "an arm without effect was trained"
    assert {row.verdict for row in report.changes} == {JudgedVerdict.INCONCLUSIVE}
    assert "2 of the 4 seeds" in " ".join(report.notes)
    assert {"start", "empty"} <= {row.policy for row in report.table}
    kinds = [one.kind for one in RunFolder(folder / "ablation-start").read_events()]
    assert kinds.count("run_finished") == 1, "the start was repeated"
    steps = [one.data["step"] for one in RunFolder(run).read_events() if one.kind == "step"]
    assert set(steps) == {1, 2}
    assert "No arm has won" in output
    assert "long has failed" in output
    assert "leaves no room for 255 more" in report.arms[2].reason
    assert report.arms[3].against == "fast"
    for name in ("report.md", "report.html"):
        assert "fast" in (folder / name).read_text()

    told = json.loads(assay.run("ablate", "--winner", str(folder)))
    assert told["arm"] is None
    assert told["digest"] == report.start_digest
    for seed in (1, 2):
        arms = [folder / f"ablation-{name}-s{seed}" for name in ("slow", "fast")]
        assert first_draws(arms[0]) == first_draws(arms[1]), "the arms met other draws"
