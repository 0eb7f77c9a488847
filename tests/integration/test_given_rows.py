"""SFT and DPO as stages of a run with all services, killed in the middle of DPO."""

import json
from pathlib import Path

from assay_shared.runs.run_folder import RunFolder
from tests.integration.conftest import Assay, demo_file, wait_for_event
from tests.support.runs import QUICK


def write_preferences(path: Path, number: int) -> Path:
    """Prefer a function that adds to one that subtracts."""
    rows = [
        {
            "prompt": [{"role": "user", "content": f"Write solve(x). Return x plus {n}."}],
            "chosen": f"def solve(x):\n    return x + {n}\n",
            "rejected": f"def solve(x):\n    return x - {n}\n",
        }
        for n in range(number)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_run_of_sft_and_dpo_is_killed_resumed_and_evaluated(assay: Assay, tmp_path: Path) -> None:
    source = f"{{kind: jsonl, path: {write_preferences(tmp_path / 'pairs.jsonl', 120)}}}"
    folder = tmp_path / "run"
    settings = (
        *(one for one in QUICK if not one.startswith("grpo")),
        "grpo=null",
        "sft.micro_batch_size=8",
        "sft.validation_share=0.1",
        f"dpo={{data: {source}, epochs: 4, batch_size: 16, micro_batch_size: 8, "
        "learning_rate: 1.0e-4, warmup_steps: 0, held_out_share: 0.2, checkpoint_every: 5}",
    )
    process = assay.start("train", demo_file(), *settings, "--folder", str(folder))
    wait_for_event(folder, "dpo_step", step=7)
    process.kill()
    assay.finish(process)

    output = assay.run("train", "--resume", str(folder))
    assert "24 held-out pairs after DPO: margin" in output
    events = list(RunFolder(folder).read_events())
    assert RunFolder(folder).read_status().state == "finished"
    steps = [event.data["step"] for event in events if event.kind == "dpo_step"]
    assert sorted(set(steps)) == list(range(1, 25))  # type: ignore[type-var]
    assert steps.count(5) == 1, "DPO resumed from its checkpoint"
    assert len([event for event in events if event.kind == "sft_step"]) == 30, "SFT was done"
    report = json.loads((folder / "report.json").read_text())
    assert set(report["evaluations"]) == {"before"}
    assert report["sft"]["validation_losses"].keys() == {"30"}
    held_out = report["dpo"]["held_out"]
    assert held_out["before"]["win_rate"]["value"] == 0.5
    assert held_out["after"]["win_rate"]["low"] > 0.5
    assert held_out["after"]["margin"] > 0
